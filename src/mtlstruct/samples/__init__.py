"""TODO samples."""
