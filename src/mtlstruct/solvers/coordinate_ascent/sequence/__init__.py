"""Dual variables and block updates of sequences: edge marginals and pairwise steps.

May import: `objective`, `structures` and the layers below.
Start reading at `dual`, `features` and `smooth_step`.
"""
