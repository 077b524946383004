"""Models of other programs: ours written in their formats, theirs read into ours. One file a format."""
