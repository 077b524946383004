"""The interface of sklearn-crfsuite: `CRF`, and the modules `metrics`, `scorers` and `utils`.

from mtlstruct.compat import sklearn_crfsuite   # was: import sklearn_crfsuite

May import: everything below `cli`.
Start reading at `estimator.CRF`.
"""

from mtlstruct.compat.sklearn_crfsuite.estimator import CRF

__all__ = ["CRF"]
