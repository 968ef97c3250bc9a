"""An op whose ways are known to be equal, or to do 1, 2 and 5 % more work: what a measurement should say of them.

The inputs have 5 % more rows than the op needs. Every way is one call of the same kernel: `a` and `b` on the rows
asked for, `plus1` and the others on so many per cent more, of which they give back the rows asked for.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

import kernellab as kl
from kernellab.doctor.aa_summary import WAYS

_MARGIN = max(WAYS.values())


def kernel(x: torch.Tensor) -> torch.Tensor:
    """GeLU: on a GPU the shipped Triton kernel, on the CPU PyTorch's."""
    if x.is_cuda:
        result: torch.Tensor = kl.ops.gelu["triton"](x)
        return result
    return torch.nn.functional.gelu(x, approximate="tanh")


def needed(x: torch.Tensor) -> int:
    """How many rows the op is about, without the margin."""
    return x.shape[0] * 100 // (100 + _MARGIN)


def cost(x: torch.Tensor) -> kl.Cost:
    moved = needed(x) * x.shape[1] * x.element_size()
    return kl.Cost(read=[moved], write=[moved])


# Hundreds of rows, so that 1 % is a whole number of them. A large case and a small one: on an H200 about 130 and
# 5 µs, on two CPU cores about 5 ms and 100 µs.
@kl.op(
    args=dict(x=kl.tensor("R N")),
    cost=cost,
    cases=kl.cases(shape=[(16800, 4096), (1050, 1024)], dtype=["float32"], cpu=dict(shape=[(840, 4096), (105, 64)])),
    manual=False,
)
def aa(x: torch.Tensor) -> torch.Tensor:
    """GeLU of the first 100/105 of the rows."""
    return torch.nn.functional.gelu(x[: needed(x)], approximate="tanh")


def _way(percent: int) -> Callable[[torch.Tensor], torch.Tensor]:
    def call(x: torch.Tensor) -> torch.Tensor:
        rows = needed(x)
        return kernel(x[: rows * (100 + percent) // 100])[:rows]

    return call


for _name, _percent in WAYS.items():
    aa.impl(_name)(_way(_percent))
