"""Online solvers: MIRA and OnlineMKL.

May import: `objective` and the layers below.
Start reading at `mira.Mira` and `online_mkl.Proximal`.
"""
