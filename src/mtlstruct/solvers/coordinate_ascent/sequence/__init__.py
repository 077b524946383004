"""Dual variables and block updates of sequences: `smooth_step` (the default), and `hinge`.

May import: `objective`, `structures` and the layers below.
Start reading at `dual`, `features` and `smooth_step`.
"""
