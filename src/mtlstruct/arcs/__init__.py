"""Features of arcs: what templates of kind A see, its index, and its encoding. One layer with `encoding`."""

from .build import encode_trees
from .index import ArcIndex, Merged

__all__ = ["ArcIndex", "Merged", "encode_trees"]
