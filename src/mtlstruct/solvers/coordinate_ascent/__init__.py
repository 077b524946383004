"""TODO solvers/coordinate_ascent."""
