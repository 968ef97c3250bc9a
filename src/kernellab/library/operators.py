"""The operators, and what autocast does to each: what it does to PyTorch's own op.

Adding an op is adding a line here and a function to `kernellab/functional`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Generic, TypeAlias, TypeVar

import torch
from torch import Tensor

from kernellab import ops
from kernellab.declaration.op import Op
from kernellab.library.choice import Choice
from kernellab.library.registration import register

Outputs = TypeVar("Outputs")
Two: TypeAlias = tuple[Tensor, Tensor]
Three: TypeAlias = tuple[Tensor, Tensor, Tensor]

# Device types on which autocast casts the inputs of PyTorch's op to float32.
_NOWHERE: dict[str, torch.dtype] = {}
_ON_GPUS = {"cuda": torch.float32}
_EVERYWHERE = {"cpu": torch.float32, "cuda": torch.float32}


class Operator(Generic[Outputs]):
    """A registered op: `serves(x)` says whether to `call` it, or PyTorch's own, for a first input x."""

    def __init__(self, op: Op, autocast: Mapping[str, torch.dtype]) -> None:
        self.choice = Choice(op)
        self.is_cast_on_gpus = "cuda" in autocast
        self.serves = self.choice.serves
        self.call: Callable[..., Outputs] = register(op, self.choice, autocast)  # type: ignore[explicit-any, assignment]


GELU = Operator[Tensor](ops.gelu, _NOWHERE)
SILU = Operator[Tensor](ops.silu, _NOWHERE)
SWIGLU = Operator[Tensor](ops.swiglu, _NOWHERE)
GEGLU = Operator[Tensor](ops.geglu, _NOWHERE)
SOFTMAX = Operator[Tensor](ops.softmax, _ON_GPUS)
LOG_SOFTMAX = Operator[Tensor](ops.log_softmax, _ON_GPUS)
LAYER_NORM = Operator[Three](ops.layer_norm, _ON_GPUS)
# Autocast knows it from torch 2.12 on.
RMS_NORM = Operator[Two](ops.rms_norm, _ON_GPUS if torch.__version__ >= "2.12" else _NOWHERE)
ADD_RMS_NORM = Operator[Three](ops.add_rms_norm, _NOWHERE)
CROSS_ENTROPY = Operator[Two](ops.cross_entropy, _EVERYWHERE)
ROPE = Operator[Two](ops.rope, _NOWHERE)
