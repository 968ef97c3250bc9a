"""Calls of attention that batteries do not make, and the rule by which they are right.

The error against the oracle in float64 is at most twice that of the reference in the same dtype, plus four roundings
of numbers of the result's size, or of the inputs' size where that is larger. Gradients rest on exp(score − lse), with
both rounded: there a rounding counts as often as the largest score is large.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import torch

import kernellab as kl
from kernellab.ops.attention.triton_sizes import PASSES, Sizes

Tensors = list[torch.Tensor]
View = Callable[[torch.Tensor], torch.Tensor]

# Small tiles, so that short sequences have tiles of all kinds.
SMALL = dict.fromkeys(PASSES, Sizes(32, 16, 4, 2))
DESCRIBED = dict.fromkeys(PASSES, Sizes(16, 32, 4, 2, True))


@dataclass(frozen=True)
class Call:
    queries: int
    keys: int
    columns: int = 16
    heads: int = 2
    kv_heads: int = 2
    batches: int = 1
    options: dict[str, object] = field(default_factory=dict)
    bias: bool = False
    times: float = 1.0  # what q and k are multiplied by
    view: View = lambda x: x
    dtype: torch.dtype = torch.float32

    def inputs(self, device: str = "cpu") -> list[torch.Tensor | None]:
        generator = torch.Generator().manual_seed(self.queries * 1000 + self.keys)
        sizes = [(self.heads, self.queries), (self.kv_heads, self.keys), (self.kv_heads, self.keys)]
        shapes = [(self.batches, *size, self.columns) for size in sizes]
        if self.bias:
            shapes.append((self.batches, self.heads, self.queries, self.keys))
        drawn = [torch.randn(shape, generator=generator) for shape in shapes]
        drawn[:2] = [x * self.times for x in drawn[:2]]
        leaves = [self.view(x.to(self.dtype).to(device)).detach().requires_grad_() for x in drawn]
        return [*leaves, *[None] * (4 - len(leaves))]


def value_and_gradients(impl: str, call: Call, inputs: Sequence[torch.Tensor | None]) -> Tensors:
    """The result, and the gradients of all inputs that are given, for one upstream gradient."""
    given = [x for x in inputs if x is not None]
    y = kl.ops.attention[impl](*inputs, **call.options)
    generator = torch.Generator().manual_seed(1)
    upstream = torch.randn(y.shape, generator=generator).to(call.dtype).to(y.device, y.dtype)
    return [y.detach(), *torch.autograd.grad(y, given, upstream)]


def assert_right(impl: str, call: Call, device: str = "cpu") -> None:
    inputs = call.inputs(device)
    wide = [None if x is None else x.detach().double().requires_grad_() for x in inputs]
    oracle = value_and_gradients("manual", call, wide)
    got, peer = (value_and_gradients(name, call, inputs) for name in (impl, "manual"))
    for name, ours, theirs, exact in zip(("y", "dq", "dk", "dv", "dbias"), got, peer, oracle, strict=False):
        assert (ours.shape, ours.dtype) == (exact.shape, call.dtype), (impl, call, name)
        assert ours.isfinite().all(), (impl, call, name)
        error, allowed = (_largest(x.double() - exact) for x in (ours, theirs))
        rounding = torch.finfo(call.dtype).eps * max(1.0, _largest(exact))
        if name != "y":
            rounding *= max(1.0, _largest_score(wide, call))
        assert error <= 2 * allowed + 4 * rounding, (impl, call, name, error, allowed, rounding)


def _largest_score(inputs: Sequence[torch.Tensor | None], call: Call) -> float:
    q, k = (x.detach().flatten(0, 2) for x in inputs[:2])
    scale = call.options.get("scale", call.columns**-0.5)
    return _largest(q @ k.T) * abs(scale)


def _largest(x: torch.Tensor) -> float:
    return float(x.abs().max()) if x.numel() else 0.0


CAUSAL = (None, "bottom_right", "top_left")


def calls() -> Iterator[Call]:
    """Lengths, grouped heads, windows, alignments, queries that see no key, large scores, widths of heads, dtypes."""
    for queries, keys in ((1, 1), (1, 113), (17, 1), (3, 239), (113, 67), (67, 113)):
        for causal in CAUSAL:
            yield Call(queries, keys, options={"causal": causal})
    for window in (0, 5, 40):
        for causal in CAUSAL:
            yield Call(50, 81, kv_heads=1, options={"causal": causal, "window": window})
            yield Call(81, 50, heads=4, kv_heads=2, options={"causal": causal, "window": window, "scale": 0.4})
    yield Call(70, 90, times=10, options={"causal": "bottom_right"})
    yield Call(70, 90, times=10, bias=True, dtype=torch.bfloat16)
    for scale in (-0.4, 0.0):
        yield Call(40, 30, bias=True, options={"scale": scale, "causal": "top_left", "window": 9})
    for columns in (1, 40, 72, 96, 256):
        yield Call(33, 47, columns=columns, heads=1, kv_heads=1, options={"causal": "top_left"})
    for causal in CAUSAL:
        yield Call(67, 50, columns=40, bias=True, options={"causal": causal}, dtype=torch.bfloat16)
        yield Call(50, 67, options={"causal": causal, "dropout_p": 0.3, "seed": 5, "offset": 6}, dtype=torch.float16)


def layouts() -> Iterator[Call]:
    """Tensors that are not contiguous, with lengths of which the copy engine can load all tiles."""
    views: list[View] = [
        lambda x: x,
        lambda x: x.transpose(1, 2).contiguous().transpose(1, 2),  # heads side by side
        lambda x: x.transpose(-1, -2).contiguous().transpose(-1, -2),
        lambda x: torch.cat((x, x), -1)[..., : x.shape[-1]],
        lambda x: torch.cat((x, x), -2)[..., ::2, :],
        lambda x: torch.cat((x.flatten(), x.flatten()[:1]))[1:].view(x.shape),  # misaligned
        lambda x: x[:, :1].expand_as(x),
        lambda x: x[..., :1, :].expand_as(x),
    ]
    for number, view in enumerate(views):
        bias = number % 2 == 0
        yield Call(64, 32, batches=2, bias=bias, options={"causal": "bottom_right"}, view=view, dtype=torch.bfloat16)
    yield Call(32, 64, heads=4, kv_heads=2, options={"causal": "top_left", "window": 20}, dtype=torch.bfloat16)
