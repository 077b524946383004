"""Measurements on real corpora, beside real peers. Nothing here is imported by the package or its tests."""
