"""Triton's interpreter: made to compute like a GPU, and with breakpoints."""
