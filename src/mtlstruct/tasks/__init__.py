"""TODO tasks."""
