"""The inputs of an op at a case as meta tensors: sizes and dtypes without memory."""

from __future__ import annotations

import torch

from kernellab.declaration.case import Case
from kernellab.declaration.op import Op


def meta_inputs(op: Op, case: Case) -> dict[str, torch.Tensor | None]:
    """One tensor per argument; None for an optional argument that the case does not pass."""
    inputs: dict[str, torch.Tensor | None] = {}
    for name, arg in op.args.items():
        if arg.optional and not case.options.get(name, False):
            inputs[name] = None
            continue
        dtype = getattr(torch, op.dtype_of(arg, case))
        inputs[name] = torch.empty(op.sizes(arg, case), dtype=dtype, device="meta")
    return inputs
