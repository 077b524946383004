"""What is measured: each module is a program of its own, started in a fresh process."""
