"""TODO solvers/online."""
