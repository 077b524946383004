"""TODO tuning."""
