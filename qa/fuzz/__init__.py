"""Fuzzing of readers, parsers, loaders and the server (docs/explanation/reliability.md)."""
