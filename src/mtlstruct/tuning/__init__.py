"""Grids of settings and splits, run in parallel, with stored results.

May import: `training` and the layers below.
Start reading at `study.Study` and `runner`.
"""
