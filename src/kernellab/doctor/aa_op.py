"""An op whose implementations differ by known amounts: two are equal, the others do 1, 2 and 5 % more work.

The inputs have 5 % more rows than the op needs. Every implementation is one call of the same kernel: `a` and `b` on the
rows that are needed, `plus1`, `plus2` and `plus5` on that many per cent more, of which they return the rows needed.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

import kernellab as kl
from kernellab.doctor.aa_summary import IMPLS

_MARGIN = max(IMPLS.values())


def kernel(x: torch.Tensor) -> torch.Tensor:
    """GeLU: on a GPU the shipped Triton kernel, on the CPU PyTorch's."""
    if x.is_cuda:
        result: torch.Tensor = kl.ops.gelu["triton"](x)
        return result
    return torch.nn.functional.gelu(x, approximate="tanh")


def needed_rows(x: torch.Tensor) -> int:
    """The number of rows that the op needs, without the margin."""
    return x.shape[0] * 100 // (100 + _MARGIN)


def cost(x: torch.Tensor) -> kl.Cost:
    moved = needed_rows(x) * x.shape[1] * x.element_size()
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
    return torch.nn.functional.gelu(x[: needed_rows(x)], approximate="tanh")


def _implementation(percent: int) -> Callable[[torch.Tensor], torch.Tensor]:
    def call(x: torch.Tensor) -> torch.Tensor:
        rows = needed_rows(x)
        return kernel(x[: rows * (100 + percent) // 100])[:rows]

    return call


for _name, _percent in IMPLS.items():
    aa.impl(_name)(_implementation(_percent))
