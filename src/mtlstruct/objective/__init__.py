"""TODO objective."""
