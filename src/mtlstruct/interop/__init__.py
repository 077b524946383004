"""Models of CRF++ and Wapiti, read and written; one module per format.

May import: `explain`, `model` and the layers below.
Start reading at `crfpp` and `attribute_cells`.
"""
