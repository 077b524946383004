"""From options and a corpus to a model: methods, training, run log, checkpoints, warm start.

May import: `solvers` and the layers below.
Start reading at `train.train`, `options.Options` and `methods`.
"""
