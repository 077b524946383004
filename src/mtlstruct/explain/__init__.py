"""Score decomposition by template, highest-weighted features, and template selection.

May import: `model` and the layers below.
Start reading at `decomposition.explain` and `selection`.
"""
