"""Puts the kernels into an existing model: finds what they can serve, replaces it in place, and undoes it.

`patch` walks over the modules of a model. A module of torch.nn gets its namesake of `kernellab.nn` as its class. Other
modules are recognized by what they compute (`recognition`). Of the rest, calls of PyTorch's functions are redirected
(`calls`).
"""
