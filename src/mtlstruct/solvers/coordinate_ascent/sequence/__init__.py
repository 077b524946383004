"""TODO solvers/coordinate_ascent/sequence."""
