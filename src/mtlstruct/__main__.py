"""`python -m mtlstruct`: the same as the command `mtlstruct`."""

from mtlstruct.cli import main

main()
