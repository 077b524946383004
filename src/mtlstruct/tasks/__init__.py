"""Tasks: how each one reads, writes and scores its data.

May import: `training`, `evaluation`, `formats` and the layers below.
Start reading at `base`.
"""
