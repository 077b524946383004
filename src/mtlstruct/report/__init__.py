"""What a model or a run looks like to people: tables and pictures."""
