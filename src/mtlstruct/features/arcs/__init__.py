"""Features of arcs: what templates of kind A see, its index, and its encoding. One layer with `encoding`."""

from mtlstruct.features.arcs.build import encode_trees
from mtlstruct.features.arcs.index import ArcIndex, Merged

__all__ = ["ArcIndex", "Merged", "encode_trees"]
