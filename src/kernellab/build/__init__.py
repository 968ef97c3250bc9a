"""Builds hand-written code: CUDA C++ with NVRTC or nvcc, C++ for the CPU with the system's compiler.

A source file and the name of a function come in; something callable on tensors goes out. Compiled code is cached on
disk, keyed by the sources and everything else that decides the result. Importing the package imports no torch; the
first launch does. Imports base and machine.
"""
