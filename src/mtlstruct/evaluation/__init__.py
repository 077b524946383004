"""Scores as the official scripts count them, and error analysis.

May import: `model` and the layers below.
Start reading at `scores`, `chunks` (conlleval) and `words` (SIGHAN).
"""
