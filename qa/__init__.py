"""Quality assurance beyond the test suite: fuzzing and soak tests."""
