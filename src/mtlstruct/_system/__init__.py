"""Threads, worker processes, memory, atomic files, folder locks, the array archive, run state, digests.

May import: `errors` and `_numba`.
Start reading at `archive` and `threads`.
"""
