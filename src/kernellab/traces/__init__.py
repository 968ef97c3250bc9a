"""Recordings of programs, read from the files that profilers write.

In: a file of PyTorch's profiler (Chrome JSON) or of Nsight Systems (SQLite export). Out: a `Trace`, one table with the
same columns whichever profiler recorded it. Damaged files are read as far as possible, and the trace's notes say what
is missing. This package does not interpret what it reads. Imports base; no torch.
"""

from kernellab.traces.files import read, read_all

__all__ = ["read", "read_all"]
