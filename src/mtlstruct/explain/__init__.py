"""Score decomposition by template, highest-weighted features, and template selection.

May import: `model` and the layers below.
Start reading at `sequences.explain` and `selection`.
"""
