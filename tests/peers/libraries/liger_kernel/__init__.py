"""Stands in for Liger-Kernel 0.8.5: the same names, parameters and side effects, computed by PyTorch."""
