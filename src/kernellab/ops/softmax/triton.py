"""Softmax over the last dim in Triton: the arithmetic; ../rows_triton.py moves the data.

The maximum is subtracted before anything is scaled: rows of ±1000, or masked with the lowest finite
number, keep their differences exact. `tl.exp` is already the GPU's 2^x with one multiplication.
"""

import triton
import triton.language as tl

from kernellab.ops.rows_triton import RowFunctions

# Columns beyond the row hold −inf, which changes neither the maximum nor the sum.
BEYOND = -float("inf")


@triton.jit
def whole_row(x, none):
    e = tl.exp(x - tl.max(x, axis=1, keep_dims=True))  # −inf − −inf is NaN: PyTorch's answer for such a row
    return e * (1.0 / tl.sum(e, axis=1, keep_dims=True))


@triton.jit
def absorb(x, none, peak, total):
    """The running maximum and the sum of exp(x − maximum), updated with the columns of x."""
    higher = tl.maximum(peak, tl.max(x, axis=1))
    base = finite(higher)
    return higher, total * tl.exp(peak - base) + tl.sum(tl.exp(x - base[:, None]), axis=1)


@triton.jit
def finite(peak):
    """The number to subtract. If all is −inf so far, −inf − −inf would be NaN; with a finite number exp gives 0."""
    return tl.where(peak == -float("inf"), 0.0, peak)


@triton.jit
def peak_and_total(peak, total):
    row_peak = tl.max(peak, axis=0)
    return row_peak, tl.sum(total * tl.exp(peak - finite(row_peak)), axis=0)


@triton.jit
def peak_and_scale(peak, total):
    row_peak, row_total = peak_and_total(peak, total)
    return row_peak, 1.0 / row_total


@triton.jit
def scaled_exp(x, none, peak, scale):
    return tl.exp(x - peak) * scale


SOFTMAX = RowFunctions(whole_row, absorb, peak_and_scale, scaled_exp, filling=BEYOND)


# With y the result, the gradient of x is y·(dy − Σ dy·y).


@triton.jit
def whole_row_backward(upstream, y):
    return y * (upstream - tl.sum(upstream * y, axis=1, keep_dims=True))


@triton.jit
def absorb_products(upstream, y, total, none):
    return total + tl.sum(upstream * y, axis=1), none


@triton.jit
def row_total(total, none):
    return tl.sum(total, axis=0), 0.0


@triton.jit
def subtract_total(upstream, y, total, none):
    return y * (upstream - total)


BACKWARD = RowFunctions(whole_row_backward, absorb_products, row_total, subtract_total, filling=0.0)
