"""Only stride(-1) is checked; the row stride is assumed to be the width, which is wrong for both halves of a chunk.

Gate and up are usually the two halves of one projection: `gate, up = h.chunk(2, -1)`. Their columns are adjacent,
so the check passes, but their rows are twice as far apart as they are wide.
"""

import math

import torch
import triton
import triton.language as tl

import kernellab as kl

CAUGHT_BY = "layouts"
SOURCE = "https://github.com/vllm-project/vllm/pull/43190"
NEEDS_GPU = False


@kl.op(args=dict(gate=kl.tensor("... N"), up=kl.tensor("... N")), cases=kl.cases(shape=[(64, 256)], dtype=["float32"]))
def swiglu(gate, up):
    """gate·σ(gate)·up."""
    return gate * torch.sigmoid(gate) * up


@swiglu.impl("torch")
def _(gate, up):
    return torch.nn.functional.silu(gate) * up


@triton.jit
def swiglu_kernel(gate_ptr, up_ptr, y_ptr, cols, gate_row, up_row, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    for start in range(0, cols, BLOCK):
        col = start + tl.arange(0, BLOCK)
        gate = tl.load(gate_ptr + row * gate_row + col, mask=col < cols, other=0.0).to(tl.float32)
        up = tl.load(up_ptr + row * up_row + col, mask=col < cols, other=0.0).to(tl.float32)
        y = gate / (1.0 + tl.exp(-gate)) * up
        tl.store(y_ptr + row * cols + col, y.to(y_ptr.dtype.element_ty), mask=col < cols)


def launch(gate, up, true_strides):
    y = torch.empty(gate.shape, dtype=gate.dtype, device=gate.device)
    rows, cols = math.prod(gate.shape[:-1]), gate.shape[-1]
    gate, up = (t.reshape(rows, cols) for t in (gate, up))
    gate, up = (t if t.stride(-1) == 1 else t.contiguous() for t in (gate, up))
    if y.numel():
        strides = (gate.stride(0), up.stride(0)) if true_strides else (cols, cols)
        swiglu_kernel[(rows,)](gate, up, y, cols, *strides, 1024)
    return y


def no_float64(case):
    return case.dtype != "float64" or "no float64 kernel"


@swiglu.impl("triton-right", supports=no_float64)
def _(gate, up):
    return launch(gate, up, true_strides=True)


@swiglu.impl("triton-wrong", supports=no_float64)
def _(gate, up):
    return launch(gate, up, true_strides=False)
