"""TODO explain."""
