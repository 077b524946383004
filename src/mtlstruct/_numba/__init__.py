"""Kernel decorators, intrinsics and the kernel cache: the only code that knows numba.

May import: nothing of the package.
Start reading at `decorators`.
"""
