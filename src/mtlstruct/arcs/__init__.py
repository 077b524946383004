"""Features of arcs: what templates of kind A see, its index, and its encoding. One layer with `encoding`."""

from .build import ArcTraining, encode_trees
from .index import ArcIndex
from .merge import Merged, thinned

__all__ = ["ArcIndex", "ArcTraining", "Merged", "encode_trees", "thinned"]
