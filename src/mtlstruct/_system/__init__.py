"""Threads, processes, memory, files written atomically, the array archive, digests.

May import: `errors` and `_numba`.
Start reading at `archive` and `threads`.
"""
