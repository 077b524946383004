"""Scores as the official scripts count them, and error analysis.

May import: `model` and the layers below.
Start reading at `scores` and `metrics`.
"""
