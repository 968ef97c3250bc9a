"""Traces of programs: one table, whoever recorded it. No torch."""

from kernellab.traces.files import read, read_all

__all__ = ["read", "read_all"]
