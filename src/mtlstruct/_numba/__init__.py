"""TODO _numba."""
