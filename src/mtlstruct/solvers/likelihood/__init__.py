"""Batch solvers for the log loss: L-BFGS, OWL-QN and the reweighted CRF.

May import: `objective` and the layers below.
Start reading at `lbfgs.LBFGS`, then `run` and `problem`.
"""
