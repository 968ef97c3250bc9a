"""The logarithm of softmax over the last dim in Triton: the arithmetic; ../rows_triton.py moves the data."""

import triton
import triton.language as tl

from kernellab.ops.rows_triton import RowFunctions
from kernellab.ops.softmax.triton import BEYOND, absorb, peak_and_total, row_total


@triton.jit
def whole_row(x, none):
    below = x - tl.max(x, axis=1, keep_dims=True)  # −inf − −inf is NaN: PyTorch's answer for such a row
    return below - tl.log(tl.sum(tl.exp(below), axis=1, keep_dims=True))


@triton.jit
def peak_and_log(peak, total):
    row_peak, row_total = peak_and_total(peak, total)
    return row_peak, tl.log(row_total)


@triton.jit
def subtract_both(x, none, peak, log_total):
    return (x - peak) - log_total  # the difference first: the logarithm is small


LOG_SOFTMAX = RowFunctions(whole_row, absorb, peak_and_log, subtract_both, filling=BEYOND)


# With y the result, the gradient of x is dy − exp(y)·Σ dy.


@triton.jit
def whole_row_backward(upstream, y):
    return upstream - tl.exp(y) * tl.sum(upstream, axis=1, keep_dims=True)


@triton.jit
def absorb_upstream(upstream, y, total, none):
    return total + tl.sum(upstream, axis=1), none


@triton.jit
def subtract_share(upstream, y, total, none):
    return upstream - tl.exp(y) * total


BACKWARD = RowFunctions(whole_row_backward, absorb_upstream, row_total, subtract_share, filling=0.0)
