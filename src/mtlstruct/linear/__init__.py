"""The block-sparse design matrix A, the products A·w and Aᵀz, norms, and weight layouts.

May import: `errors`, `_numba`, `_system`, `corpus`.
Start reading at `design.Design` (the data), `weight_layout.WeightLayout` and `products`.
"""
