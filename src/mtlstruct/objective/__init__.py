"""The training objective: losses, regularizers, and the oracle that evaluates them on data.

May import: `model` and the layers below.
Start reading at `oracle.Oracle` and `regularizers`.
"""
