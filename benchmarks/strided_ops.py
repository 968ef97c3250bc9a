"""Ops that run shipped kernels on rows of a larger tensor: launches that no contiguous case makes.

For benchmarks/facts_vs_ncu.py. Rows of `wide` are aligned to 16 bytes, rows of `narrow` are not. `turned` is the
transposed tensor.
"""

import torch

import kernellab as kl
from kernellab.declaration.op import Op
from kernellab.ops.gelu import gelu
from kernellab.ops.softmax import softmax
from kernellab.ops.square import square

CUTS = {"wide": lambda x: x[:, 64:], "narrow": lambda x: x[:, 1:], "turned": lambda x: x.t()}


def declare_strided(op: Op) -> None:
    def reference(x, *, cut="wide"):
        return op["torch"](CUTS[cut](x))

    reference.__name__ = f"{op.name}_part"
    part = kl.op(args=dict(x=kl.tensor("M N")), options={"cut": list(CUTS)}, dtypes=["float32", "bfloat16"])(reference)
    for impl in ("triton", "cuda"):

        def run(x: torch.Tensor, *, cut="wide", impl=impl):
            return op[impl](CUTS[cut](x))

        part.impl(impl)(run)


for shipped in (gelu, softmax, square):
    declare_strided(shipped)
