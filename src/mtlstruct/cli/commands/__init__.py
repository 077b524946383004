"""One module per command: parse arguments, call, print.

May import: every package.
Start reading at `train` and `predict`.
"""
