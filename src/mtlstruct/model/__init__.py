"""TODO model."""
