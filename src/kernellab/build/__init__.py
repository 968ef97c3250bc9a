"""Builds hand-written code: CUDA C++ with NVRTC or nvcc, C++ for the CPU with the system's compiler.

In: a source file and the name of a function. Out: an object that is called with tensors. Compiled code is cached on
disk, keyed by the sources and everything else that decides the result. Importing the package imports no torch; the
first launch does. Imports base and machine.
"""
