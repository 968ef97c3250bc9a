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
from kernellab.launcher.repetition import Repeatable, Result
from kernellab.library.choice import Choice
from kernellab.library.registration import register

Outputs = TypeVar("Outputs")
Two: TypeAlias = tuple[Tensor, Tensor]
Three: TypeAlias = tuple[Tensor, Tensor, Tensor]

# Device types on which autocast casts the inputs of PyTorch's op to float32.
_NOWHERE: dict[str, torch.dtype] = {}
_ON_GPUS = {"cuda": torch.float32}
_EVERYWHERE = {"cpu": torch.float32, "cuda": torch.float32}


class Operator(Generic[Outputs, Result]):
    """A registered op: `serves(x)` says whether to `call` it, or PyTorch's own, for a first input x.

    `function` is the name of its function in kernellab.functional, by default that of the op. `repeated` repeats calls
    of the function that it decorates, which returns the op's results.
    """

    def __init__(self, op: Op, autocast: Mapping[str, torch.dtype], function: str = "") -> None:
        self.function = function or op.name
        self.choice = Choice(op)
        self.is_cast_on_gpus = "cuda" in autocast
        self.serves = self.choice.serves
        forward, backward = register(op, self.choice, autocast, self.function)
        self.call: Callable[..., Outputs] = forward  # type: ignore[explicit-any, assignment]
        self.repeated = Repeatable[Result](op.name, self.choice.contract, backward)


GELU = Operator[Tensor, Tensor](ops.gelu, _NOWHERE)
SILU = Operator[Tensor, Tensor](ops.silu, _NOWHERE)
SWIGLU = Operator[Tensor, Tensor](ops.swiglu, _NOWHERE)
GEGLU = Operator[Tensor, Tensor](ops.geglu, _NOWHERE)
SOFTMAX = Operator[Tensor, Tensor](ops.softmax, _ON_GPUS)
LOG_SOFTMAX = Operator[Tensor, Tensor](ops.log_softmax, _ON_GPUS)
LAYER_NORM = Operator[Three, Tensor](ops.layer_norm, _ON_GPUS)
# Autocast knows it from torch 2.12 on.
RMS_NORM = Operator[Two, Tensor](ops.rms_norm, _ON_GPUS if torch.__version__ >= "2.12" else _NOWHERE)
ADD_RMS_NORM = Operator[Three, Two](ops.add_rms_norm, _NOWHERE)
CROSS_ENTROPY = Operator[Two, Tensor](ops.cross_entropy, _EVERYWHERE)
# Where autocast casts a linear layer, PyTorch serves.
LINEAR_GELU = Operator[Two, Tensor](ops.linear_gelu, _NOWHERE)
LINEAR_CROSS_ENTROPY = Operator[Three, Tensor](ops.linear_cross_entropy, _NOWHERE)
ROPE = Operator[Two, Two](ops.rope, _NOWHERE)
DROPOUT_ADD = Operator[Tensor, Tensor](ops.dropout_add, _NOWHERE)
# Autocast casts to a dtype that the user chooses: the function leaves what has another to PyTorch.
ATTENTION = Operator[Two, Tensor](ops.attention, _NOWHERE, "scaled_dot_product_attention")
