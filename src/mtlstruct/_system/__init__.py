"""Threads, memory, atomic files, folder locks, archive, run state, digests.

May import: `errors` and `_numba`.
Start reading at `archive` and `threads`.
"""
