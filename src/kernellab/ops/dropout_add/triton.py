"""Dropout and addition in Triton: the arithmetic; ../elementwise_triton.py moves the data and draws the words."""

import triton
import triton.language as tl


@triton.jit
def dropout_add_value(x, residual, words, last_kept, scale):
    return x * factor(words, last_kept, scale) + residual


@triton.jit
def dropout_gradient(upstream, words, last_kept, scale):
    return upstream * factor(words, last_kept, scale)


@triton.jit
def factor(words, last_kept, scale):
    return tl.where(words <= last_kept.to(tl.uint32), scale, 0.0)
