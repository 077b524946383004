"""Features of arcs, for dependency trees: plan, index and encoding of templates of kind A.

May import: what `features` may.
Start reading at `plan`, `index.ArcIndex` and `build`.
"""

from mtlstruct.features.arcs.build import encode_trees
from mtlstruct.features.arcs.index import ArcIndex

__all__ = ["ArcIndex", "encode_trees"]
