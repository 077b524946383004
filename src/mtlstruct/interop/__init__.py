"""Models of other programs, read and written, and stand-alone taggers; one module per format.

May import: `explain`, `model` and the layers below.
Start reading at `crfpp`, `feature_text` and `standalone`.
"""
