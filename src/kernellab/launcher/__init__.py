"""Repeats eager calls of kernellab.functional in C++: host time as of PyTorch's own ops.

A call is recorded once by its key: the function, its options, and dtype, sizes, strides and alignment of its tensors.
From then on a C++ extension allocates the same tensors and launches the same kernels, outside Python and torch's
dispatcher. It is built once in the background. Until then, and wherever a repetition would differ from the ordinary
call, the ordinary call is made. Imports base, build, machine and ops.
"""
