"""What the implementations of linear_cross_entropy share: their passes, and the loop over chunks of tokens.

The logits of one chunk after the other are computed in one buffer by PyTorch's matmul. A kernel of the implementation
turns them, in place, into losses and into their gradient. Two more products make of that the gradient of x, complete
for these tokens, and a part of that of the weight, which is added to the parts before it in the tensor's dtype.

Losses that are added up have one upstream gradient, a factor. So their gradients can be computed with the losses, in
the forward pass, and multiplied by it in backward: three products in all, as many as PyTorch needs with all logits in
memory. Otherwise forward computes the losses alone, and backward computes the logits again: four products.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch

from kernellab.ops.cross_entropy.loss import Settings
from kernellab.ops.gradients import Contract, Given, Passes, Tensors, is_left_out, left_out

# A sixth of the logits is in memory at a time. More chunks would take less memory, but for each of them the weight's
# gradient is read, written and, in 16 bits, rounded. With six roundings of at most ½ it stays within what a check
# allows: twice PyTorch's error plus 4.
MOST_CHUNKS = 6
LEAST_ROWS, ROWS_STEP = 256, 128  # of a chunk: matmuls of fewer rows are slower
_ALIGNED_BYTES = 16


class Kernels(Protocol):
    """What an implementation computes itself."""

    def losses(self, x: torch.Tensor, weight: torch.Tensor, target: torch.Tensor, settings: Settings) -> torch.Tensor:
        """The loss of every token, in the dtype of sums."""

    def convert(
        self,
        logits: torch.Tensor,
        target: torch.Tensor,
        scales: torch.Tensor | None,
        losses: torch.Tensor | None,
        settings: Settings,
    ) -> None:
        """The losses of the tokens of a chunk, and in the place of the logits their gradient, each row times its scale;
        without `scales` there is no gradient. `scales`, [rows] or [], and `losses` are in the dtype of sums. The logits
        are from `new_logits`."""

    def multiply(self, gradient: torch.Tensor, factor: torch.Tensor) -> None:
        """Multiply a contiguous tensor by a number, in place."""


def linear_loss_passes(kernels: Kernels, settings: Settings, *, ahead: bool = True) -> Passes:
    """`ahead`: whether gradients are computed in forward where that is possible."""

    def run_forward(*inputs: torch.Tensor, wanted: Sequence[bool]) -> Tensors:
        x, weight, target = inputs
        _require(x, weight, target, settings)
        x, weight = x.resolve_neg(), weight.resolve_neg()
        if not (ahead and any(wanted) and can_be_ahead(x, settings.reduction)):
            losses = kernels.losses(x, weight, target, settings)
            return [_reduce(losses, target, settings).to(x.dtype), left_out(x), left_out(x)]
        losses = x.new_empty(len(target), dtype=dtype_of_sums(x))
        gradients = chunked(kernels, x, weight, target, _factor(x, target, settings), settings, wanted, losses)
        dx, dweight = (left_out(x) if gradient is None else gradient for gradient in gradients)
        return [_reduce(losses, target, settings).to(x.dtype), dx, dweight]

    def run_backward(*upstream_and_saved: torch.Tensor, wanted: Sequence[bool]) -> Given:
        upstream, x, weight, target, *computed = upstream_and_saved
        upstream = upstream.resolve_neg()
        gradients = [t if needed else None for t, needed in zip(computed, wanted, strict=True)]
        if not any(t is not None and is_left_out(t) for t in gradients):
            for gradient in gradients:
                if gradient is not None:
                    kernels.multiply(gradient, upstream)
            return gradients
        scales = upstream.to(dtype_of_sums(x)) * _factor(x, target, settings)
        x, weight = x.resolve_neg(), weight.resolve_neg()
        return chunked(kernels, x, weight, target, scales, settings, wanted)

    return Passes(run_forward, run_backward)


def can_be_ahead(x: torch.Tensor, reduction: object) -> bool:
    """Whether gradients can be computed before the upstream gradient is known.

    Not in float16: a probability divided by the number of tokens is 0 there, unless it is multiplied by the large
    upstream gradient, the scale of a loss, that training with float16 needs.
    """
    return reduction != "none" and x.dtype != torch.float16


def chunked(
    kernels: Kernels,
    x: torch.Tensor,
    weight: torch.Tensor,
    target: torch.Tensor,
    scales: torch.Tensor | None,
    settings: Settings,
    wanted: Sequence[bool],
    losses: torch.Tensor | None = None,
) -> list[torch.Tensor | None]:
    """The gradients of x and of the weight, where they are wanted, for losses with these upstream gradients, [rows] or
    []; without any, `scales` is None. The losses are written to `losses`."""
    (rows, depth), cols = x.shape, weight.shape[0]
    dx = x.new_empty(rows, depth) if wanted[0] else None
    dweight = x.new_empty(cols, depth) if wanted[1] else None
    step = rows_of_a_chunk(rows)
    buffer = new_logits(x, min(step, rows), cols)
    for start in range(0, rows, step):
        part = slice(start, min(start + step, rows))
        logits = torch.mm(x[part], weight.t(), out=buffer[: part.stop - start])
        some_scales = scales[part] if scales is not None and scales.dim() else scales
        kernels.convert(logits, target[part], some_scales, None if losses is None else losses[part], settings)
        if dx is not None:
            torch.mm(logits, weight, out=dx[part])
        if dweight is not None and start:
            dweight.addmm_(logits.t(), x[part])
        elif dweight is not None:
            torch.mm(logits.t(), x[part], out=dweight)
    if dweight is not None and not rows:
        dweight.zero_()
    return [dx, dweight]


def rows_of_a_chunk(rows: int) -> int:
    """How many tokens have their logits in memory at a time."""
    per_chunk = -(-rows // MOST_CHUNKS)
    return max(LEAST_ROWS, -(-per_chunk // ROWS_STEP) * ROWS_STEP)


def new_logits(x: torch.Tensor, rows: int, cols: int) -> torch.Tensor:
    """Memory for logits, each row from a multiple of 16 bytes on."""
    width = _ALIGNED_BYTES // x.element_size()
    return x.new_empty(rows, -(-cols // width) * width)[:, :cols]


def dtype_of_sums(x: torch.Tensor) -> torch.dtype:
    return torch.float64 if x.dtype == torch.float64 else torch.float32


def _factor(x: torch.Tensor, target: torch.Tensor, settings: Settings) -> torch.Tensor:
    """By which the gradient of every loss is multiplied: of a mean, one over the tokens that count."""
    dtype = dtype_of_sums(x)
    if settings.reduction != "mean":
        return torch.ones((), dtype=dtype, device=x.device)
    return 1 / (target != settings.ignore_index).sum(dtype=dtype)


def _reduce(losses: torch.Tensor, target: torch.Tensor, settings: Settings) -> torch.Tensor:
    if settings.reduction == "none":
        return losses
    total = losses.sum()
    if settings.reduction == "sum":
        return total
    return total / (target != settings.ignore_index).sum(dtype=losses.dtype)  # 0 / 0 is NaN, as in PyTorch


def _new_outputs(*inputs: torch.Tensor, wanted: Sequence[bool], **options: object) -> Tensors:
    x, weight, target = inputs
    loss = x.new_empty(target.shape if options["reduction"] == "none" else ())
    ahead = any(wanted) and can_be_ahead(x, options["reduction"])
    gradients = zip((x, weight), wanted, strict=True)
    return [loss, *(x.new_empty(t.shape) if ahead and needed else left_out(x) for t, needed in gradients)]


def _new_gradients(*upstream_and_saved: torch.Tensor, **options: object) -> Tensors:
    _, x, weight, *_ = upstream_and_saved
    return [x.new_empty(x.shape), x.new_empty(weight.shape)]


CONTRACT = Contract(
    inputs=("x", "weight", "target"),
    outputs=("loss", "dx", "dweight"),
    saved=("x", "weight", "target", "dx", "dweight"),
    differentiated=(("x",), ("weight",)),
    new_outputs=_new_outputs,  # type: ignore[arg-type]  # it takes `wanted`
    new_gradients=_new_gradients,
    forward_takes_wanted=True,
    handed_over=("dx", "dweight"),
)


def _require(x: torch.Tensor, weight: torch.Tensor, target: torch.Tensor, settings: Settings) -> None:
    """Raise an error for inputs and options that no kernel takes."""
    if x.dim() != 2 or weight.dim() != 2 or x.shape[1] != weight.shape[1] or target.shape != x.shape[:1]:
        shapes = ", ".join(str(list(t.shape)) for t in (x, weight, target))
        raise ValueError(
            f"linear_cross_entropy takes x [M, K], a weight [V, K] and targets [M], not {shapes}: flatten leading dims "
            "with x.flatten(0, -2) and target.flatten()"
        )
    if not weight.shape[0]:
        raise ValueError("linear_cross_entropy has no value for a weight without rows")
    if weight.dtype != x.dtype:
        raise TypeError(f"linear_cross_entropy of {x.dtype} takes no {weight.dtype} beside it: convert one of them")
    settings.require(target)
