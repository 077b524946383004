"""Other programs for the same work, one adapter each: what they read, how they train and tag, what they print.

Nothing of theirs is in the repository: their programs are looked for in the folder of `--peers` and on the path.
"""
