"""Both passes of ops along the last dim: inputs that begin anywhere in memory, and the comparison with PyTorch."""

from __future__ import annotations

import math

import torch

from kernellab.accuracy.errors import measure, nonfinite_mismatch
from kernellab.accuracy.errors import passes as is_accurate

PARAMETERS = {"layer_norm": 2, "rms_norm": 1, "add_rms_norm": 1}


def among_nans(values, offset=0):
    """A copy `offset` elements behind a multiple of 16 bytes, with NaNs before and behind it."""
    memory = torch.full((values.numel() + 64,), math.nan, dtype=values.dtype, device=values.device)
    start = (-memory.data_ptr() % 16) // memory.element_size() + 16 + offset
    return memory[start : start + values.numel()].view(values.shape).copy_(values)


def inputs_of(name, rows, cols, dtype, *, offset=0, device="cpu"):
    """Those of an op along the last dim, parameters included."""
    shapes = [(rows, cols)] * (2 if name == "add_rms_norm" else 1) + [(cols,)] * PARAMETERS.get(name, 0)
    generator = torch.Generator(device).manual_seed(rows * cols)
    values = [torch.randn(shape, generator=generator, device=device).to(dtype) for shape in shapes]
    return [among_nans(x, offset).requires_grad_() for x in values]


def both_passes(op, impl, inputs):
    """The results of an op, and the gradients of its inputs for upstream gradients without a pattern."""
    results = op[impl](*inputs)
    results = results if isinstance(results, tuple) else (results,)
    device = results[0].device
    generator = torch.Generator(device).manual_seed(1)
    upstream = [torch.randn(y.shape, generator=generator, device=device).bfloat16().to(y.dtype) for y in results]
    upstream = [among_nans(dy) for dy in upstream]
    return [*results, *torch.autograd.grad(results, inputs, upstream)]


def assert_as_accurate_as_torch(op, inputs, results):
    own = both_passes(op, "torch", inputs)
    oracle = both_passes(op, "manual", [x.detach().double().requires_grad_() for x in inputs])
    for ours, theirs, exact in zip(*([y.detach() for y in ys] for ys in (results, own, oracle)), strict=True):
        assert nonfinite_mismatch(ours, exact, theirs) is None
        errors = [measure(y, exact, rowwise=exact.dim() > 1) for y in (ours, theirs)]
        assert is_accurate(*errors), (inputs[0].shape, errors)
