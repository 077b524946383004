"""TODO _system."""
