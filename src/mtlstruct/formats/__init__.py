"""Readers of data files and of data in memory, and the text of predictions.

A format is a module with `read`, `stream` and a function that formats predictions, not a class.
May import: `corpus`, `errors`, `_numba`, `_system`.
Start reading at `columns` and `sentences`, which turns the X of an estimator into a corpus.
"""
