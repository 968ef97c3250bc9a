"""What the implementations of cross-entropy share on the host: its options, and the backward they get."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import torch

from kernellab.ops.gradients import differentiable


class Settings(NamedTuple):
    """The options, as torch.nn.functional.cross_entropy has them."""

    reduction: str
    label_smoothing: float
    ignore_index: int

    def upstream_step(self, upstream: torch.Tensor) -> int:
        """Elements between the upstream gradients of two rows."""
        return upstream.stride(0) if self.reduction == "none" else 0


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


def differentiable_loss(
    forward: LossForward, backward: LossBackward, logits: torch.Tensor, target: torch.Tensor, settings: Settings
) -> torch.Tensor:
    """The result of forward, which autograd differentiates by backward."""
    _require(logits, target, settings)

    def run_forward(*inputs: torch.Tensor) -> tuple[torch.Tensor, Sequence[torch.Tensor]]:
        given = inputs[0].resolve_neg()  # in memory, which kernels read, a lazily negated tensor has the other sign
        loss, saved = forward(given, inputs[1], settings)
        return loss, (given, inputs[1], saved)

    def run_backward(*inputs: torch.Tensor) -> Sequence[torch.Tensor | None]:
        upstream, given, labels, saved = inputs
        return backward(upstream.resolve_neg(), given, labels, saved, settings), None

    return differentiable(run_forward, run_backward, logits, target)


def _require(logits: torch.Tensor, target: torch.Tensor, settings: Settings) -> None:
    """Raise an error for inputs and options that no kernel takes."""
    if logits.dim() != 2 or target.shape != logits.shape[:1]:
        raise ValueError(
            f"cross_entropy takes logits [M, V] and targets [M], not {list(logits.shape)} and {list(target.shape)}: "
            "flatten leading dims with logits.flatten(0, -2) and target.flatten()"
        )
    if not logits.shape[1]:
        raise ValueError("cross_entropy has no value for logits without columns")
    if target.dtype != torch.int64:
        raise TypeError(f"cross_entropy takes targets of torch.int64, not {target.dtype}: convert them with .long()")
    if settings.reduction not in ("mean", "sum", "none"):
        raise ValueError(f"cross_entropy has no reduction {settings.reduction!r}: use mean, sum or none")
    if not 0 <= settings.label_smoothing <= 1:
        raise ValueError(f"cross_entropy takes a label_smoothing from 0 to 1, not {settings.label_smoothing}")
