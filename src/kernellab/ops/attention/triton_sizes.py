"""How large the tiles of the Triton kernels are, and with how many warps and stages they run: one table."""

from __future__ import annotations

from typing import NamedTuple

import torch

from kernellab.ops.gpus import capability

WIDEST_HEAD = 256


class Sizes(NamedTuple):
    """A tile is `queries` × `keys` pairs. `described`: the copy engine loads what the loop walks along, where it can."""

    queries: int
    keys: int
    warps: int
    stages: int
    described: bool = False


OVERRIDE = {}


def sizes_for(pass_name: str, x: torch.Tensor) -> Sizes:
    if pass_name in OVERRIDE:
        return OVERRIDE[pass_name]
    return Sizes(32, 32, 4, 2, True)
