"""What the implementations of cross-entropy share on the host: its options, and the passes they are called in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import torch

from kernellab.ops.gradients import Contract, Given, Passes, Tensors


class Settings(NamedTuple):
    """The options, as torch.nn.functional.cross_entropy has them."""

    reduction: str
    label_smoothing: float
    ignore_index: int

    def upstream_step(self, upstream: torch.Tensor) -> int:
        """Elements between the upstream gradients of two rows."""
        return upstream.stride(0) if self.reduction == "none" else 0

    def require(self, target: torch.Tensor) -> None:
        """Raise an error for options and for a dtype of targets that no kernel takes."""
        if target.dtype != torch.int64:
            found = target.dtype
            raise TypeError(f"cross_entropy takes targets of torch.int64, not {found}: convert them with .long()")
        if self.reduction not in ("mean", "sum", "none"):
            raise ValueError(f"cross_entropy has no reduction {self.reduction!r}: use mean, sum or none")
        if not 0 <= self.label_smoothing <= 1:
            raise ValueError(f"cross_entropy takes a label_smoothing from 0 to 1, not {self.label_smoothing}")


class LossForward(Protocol):
    """The loss, and what backward needs besides logits and target."""

    def __call__(
        self, logits: torch.Tensor, target: torch.Tensor, settings: Settings
    ) -> tuple[torch.Tensor, torch.Tensor]: ...


class LossBackward(Protocol):
    """The gradient of the logits, contiguous."""

    def __call__(
        self,
        upstream: torch.Tensor,
        logits: torch.Tensor,
        target: torch.Tensor,
        saved: torch.Tensor,
        settings: Settings,
    ) -> torch.Tensor: ...


def loss_passes(forward: LossForward, backward: LossBackward, settings: Settings) -> Passes:
    def run_forward(*inputs: torch.Tensor) -> Tensors:
        logits, target = inputs
        _require(logits, target, settings)
        # In memory, which kernels read, a lazily negated tensor has the other sign.
        return forward(logits.resolve_neg(), target, settings)

    def run_backward(*upstream_and_saved: torch.Tensor, wanted: Sequence[bool]) -> Given:
        upstream, logits, target, saved = upstream_and_saved
        return [backward(upstream.resolve_neg(), logits.resolve_neg(), target, saved, settings)]

    return Passes(run_forward, run_backward)


def new_saved(logits: torch.Tensor, reduction: object) -> torch.Tensor:
    """For what backward needs besides logits and target: two numbers for each row, and if the losses are added up, the
    factor by which a mean scales its gradient."""
    wide = torch.float64 if logits.dtype == torch.float64 else torch.float32
    return logits.new_empty(2 * logits.shape[0] + (reduction != "none"), dtype=wide)


def _new_outputs(*inputs: torch.Tensor, **options: object) -> Tensors:
    logits, target = inputs
    reduction = options["reduction"]
    return [logits.new_empty(target.shape if reduction == "none" else ()), new_saved(logits, reduction)]


def _new_gradients(*upstream_and_saved: torch.Tensor, **options: object) -> Tensors:
    return [torch.empty_like(upstream_and_saved[1], memory_format=torch.contiguous_format)]


CONTRACT = Contract(
    inputs=("logits", "target"),
    outputs=("loss", "saved"),
    saved=("logits", "target", "saved"),
    differentiated=(("logits",),),
    new_outputs=_new_outputs,
    new_gradients=_new_gradients,
)


def _require(logits: torch.Tensor, target: torch.Tensor, settings: Settings) -> None:
    """Raise an error for inputs and options that no kernel takes."""
    if logits.dim() != 2 or target.shape != logits.shape[:1]:
        raise ValueError(
            f"cross_entropy takes logits [M, V] and targets [M], not {list(logits.shape)} and {list(target.shape)}: "
            "flatten leading dims with logits.flatten(0, -2) and target.flatten()"
        )
    if not logits.shape[1]:
        raise ValueError("cross_entropy has no value for logits without columns")
    settings.require(target)
