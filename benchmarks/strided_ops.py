"""Shipped kernels on rows that are parts of longer ones, as ops: what a contiguous case never launches.

For benchmarks/facts_vs_ncu.py. Rows of `wide` begin on 16 bytes, those of `narrow` do not; `turned` ones lie down a
column.
"""

import torch

import kernellab as kl
from kernellab.declaration.op import Op
from kernellab.ops.gelu import gelu
from kernellab.ops.softmax import softmax
from kernellab.ops.square import square

CUTS = {"wide": lambda x: x[:, 64:], "narrow": lambda x: x[:, 1:], "turned": lambda x: x.t()}


def strided(op: Op) -> None:
    def reference(x, *, cut="wide"):
        return op["torch"](CUTS[cut](x))

    reference.__name__ = f"{op.name}_part"
    made = kl.op(args=dict(x=kl.tensor("M N")), options={"cut": list(CUTS)}, dtypes=["float32", "bfloat16"])(reference)
    for way in ("triton", "cuda"):

        def run(x: torch.Tensor, *, cut="wide", way=way):
            return op[way](CUTS[cut](x))

        made.impl(way)(run)


for shipped in (gelu, softmax, square):
    strided(shipped)
