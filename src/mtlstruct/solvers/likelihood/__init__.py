"""TODO solvers/likelihood."""
