"""The shipped ops that exist, tensors in every layout, and the comparison with PyTorch's own op."""

from __future__ import annotations

import itertools
import math

import torch

import kernellab as kl
from kernellab.accuracy.errors import measure, nonfinite_mismatch, passes
from kernellab.declaration.targets import shipped_names

DTYPES = [torch.float32, torch.float16, torch.bfloat16, torch.float64]
LAYOUTS = {
    "contiguous": lambda x: x,
    "transposed": lambda x: x.t(),
    "sliced rows": lambda x: x[::2],
    "sliced columns": lambda x: x[:, 3:-5],
    "column steps": lambda x: x[:, ::2],
    "misaligned": lambda x: x.flatten()[1:8].view(7, 1),
    "expanded": lambda x: x[:1].expand(5, -1),
    "3-D slice": lambda x: x.reshape(4, 5, -1)[:, 1:4, 1:9],
    "permuted": lambda x: x.reshape(4, 5, -1).permute(2, 0, 1),
    "one column": lambda x: x[:, :1],
    "no rows": lambda x: x[:0],
    "no columns": lambda x: x[:, :0],
    "scalar": lambda x: x[0, 0],
}
# Dense tensors whose memory and logical indices no two strides describe both.
INTERLEAVED = {
    "swapped in a batch": lambda x: x.reshape(4, 5, -1).transpose(1, 2),
    "channels last": lambda x: x.reshape(4, 5, 3, -1).contiguous(memory_format=torch.channels_last),
}
SPECIALS = [0.0, -0.0, 1e-30, 10.06, -10.06, 60.0, -60.0, 3e4, -3e4, math.inf, -math.inf, math.nan]


def all_ops_with(impl):
    """The names of shipped ops that have this implementation."""
    return [name for name in shipped_names() if impl in getattr(kl.ops, name).impls]


def ops_with(impl, *, elementwise=False):
    """The names of shipped ops of one tensor that have this implementation."""
    ops = {name: getattr(kl.ops, name) for name in shipped_names()}
    return [
        name for name, op in ops.items() if impl in op.impls and len(op.args) == 1 and not (elementwise and op.reduces)
    ]


def gpu_kernels():
    """(op, implementation) of every kernel for GPUs in shipped ops of one tensor; launch studies are left out."""
    ops = {name: getattr(kl.ops, name) for name in shipped_names()}
    return [
        (name, impl.name)
        for name, op in ops.items()
        for impl in op.impls.values()
        if len(op.args) == 1 and impl.kind.name in ("triton", "cuda") and not impl.study
    ]


def options_of(op):
    """Every combination of an op's options."""
    declared = op.all_options()
    return [dict(zip(declared, values, strict=True)) for values in itertools.product(*declared.values())]


def takes(op, x):
    """Whether an op is defined for a tensor: a scalar has no dim to reduce."""
    return x.dim() > 0 or not op.reduces


def assert_agrees(op, result, x, **options):
    """The result has PyTorch's shape, dtype and strides, and errors like PyTorch's."""
    own, oracle = op["torch"](x, **options), op.reference(x.double(), **options)
    assert (result.shape, result.dtype) == (own.shape, own.dtype)
    if not x.numel():
        return
    wide = [d for d in range(result.dim()) if result.size(d) > 1]
    assert [result.stride(d) for d in wide] == [own.stride(d) for d in wide]
    assert nonfinite_mismatch(result, oracle, own) is None
    rowwise = bool(op.reduces)
    assert passes(*(measure(y, oracle, rowwise=rowwise) for y in (result, own)))
