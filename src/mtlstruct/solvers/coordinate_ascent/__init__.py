"""Dual block-coordinate ascent, the default solver, and the dual variables of each structure.

May import: `objective`, `structures` and the layers below.
Start reading at `solver.Coordinate`, `solver.Run` and `duals.DualState`.
"""
