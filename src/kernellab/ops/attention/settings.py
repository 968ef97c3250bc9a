"""What the options of attention mean, the same for every implementation: which keys a query sees, the scale of the
scores, and which of their weights are dropped; and what its passes take and return."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch

from kernellab.ops.gradients import Contract, Given, Passes, Tensors
from kernellab.ops.philox import Stream, keep_rule

CAUSAL = (None, "bottom_right", "top_left")


class Band(NamedTuple):
    """Query i sees key j where first ≤ j − i ≤ last. `first` is None where no key is too early for any query, `last`
    where none is too late."""

    first: int | None
    last: int | None

    def seen(self, queries: torch.Tensor, keys: torch.Tensor) -> torch.Tensor:
        """Which of the keys each query sees, as [queries, keys]; both are given by their places."""
        ahead = keys[None, :] - queries[:, None]
        seen = torch.ones_like(ahead, dtype=torch.bool)
        if self.first is not None:
            seen &= ahead >= self.first
        if self.last is not None:
            seen &= ahead <= self.last
        return seen


@dataclass(frozen=True)
class Settings:
    """The options of attention."""

    causal: str | None = None
    scale: float | None = None
    window: int | None = None
    dropout_p: float = 0.0
    seed: int = 0
    offset: int = 0

    def __post_init__(self) -> None:
        if self.causal not in CAUSAL:
            raise ValueError(f"attention: causal is {self.causal!r}: choose None, 'bottom_right' or 'top_left'")
        if self.window is not None and self.window < 0:
            raise ValueError(f"attention: window is {self.window}, and a distance is 0 or more")
        keep_rule("attention", self.dropout_p)  # refuses what is no probability

    def scale_for(self, columns: int) -> float:
        """What scores are multiplied by, for heads of so many columns."""
        return 1 / math.sqrt(columns) if self.scale is None else self.scale

    def band(self, queries: int, keys: int) -> Band:
        """Which keys each of the queries sees. Queries lie beside the last keys, for `top_left` beside the first."""
        shift = 0 if self.causal == "top_left" else keys - queries
        first, last = (None if distance is None else shift + distance for distance in self.relative_band)
        return Band(
            None if first is None or first <= 1 - queries else first,
            None if last is None or last >= keys - 1 else last,
        )

    @property
    def relative_band(self) -> Band:
        """The band, counted from the key that lies beside a query."""
        window = self.window
        return Band(None if window is None else -window, 0 if self.causal else window)

    @property
    def keep_rule(self) -> tuple[int, float]:
        """Of which words dropout keeps a weight, and what it is then multiplied by."""
        return keep_rule("attention", self.dropout_p)

    @property
    def stream(self) -> Stream:
        return Stream(self.seed, self.offset)

    def weight_factors(self, heads: Sequence[int], queries: int, keys: int, device: torch.device) -> torch.Tensor:
        """What dropout multiplies the weights by, for all pairs of a query and a key.

        The word of a pair is that of an element of a contiguous tensor [*heads, queries, keys] whose rows are padded to
        a multiple of four: a counter of Philox has the words of four keys of one query.
        """
        last_kept, factor = self.keep_rule
        words = self.stream.words((*heads, queries, padded_keys(keys)), device)[..., :keys]
        return (words <= last_kept) * factor


def padded_keys(keys: int) -> int:
    """The distance of two queries' random words."""
    return (keys + 3) // 4 * 4


# The passes --------------------------------------------------------------------------------------------


def check_inputs(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, bias: torch.Tensor | None) -> None:
    """Raise ValueError for inputs that do not belong together."""
    for name, x in (("q", q), ("k", k), ("v", v)):
        if x.dim() != 4:
            raise ValueError(f"attention: {name} has {x.dim()} dims: make it batch × heads × length × columns")
    if k.shape != v.shape or (q.shape[0], q.shape[3]) != (k.shape[0], k.shape[3]):
        shapes = ", ".join(str(tuple(x.shape)) for x in (q, k, v))
        raise ValueError(
            f"attention: q, k and v are of shapes {shapes}: k and v must have one, and q its batch and columns"
        )
    if q.shape[1] and (not k.shape[1] or q.shape[1] % k.shape[1]):
        raise ValueError(f"attention: {q.shape[1]} heads of q are no multiple of {k.shape[1]} heads of k and v")
    expected = (*q.shape[:3], k.shape[2])
    if bias is not None and bias.shape != expected:
        raise ValueError(f"attention: bias is of shape {tuple(bias.shape)}: expand it to {tuple(expected)}")
    if len({x.dtype for x in (q, k, v, bias) if x is not None}) > 1:
        raise ValueError("attention: q, k, v and bias must have one dtype")


def new_like(x: torch.Tensor) -> torch.Tensor:
    """A new tensor for what has the shape of x: in the order of x, if columns are neighbours then."""
    new = torch.empty_like(x)
    return new if new.stride(-1) == 1 else torch.empty_like(x, memory_format=torch.contiguous_format)


def new_lse(q: torch.Tensor) -> torch.Tensor:
    """A new tensor for the logarithm of the sum of exponentials of each row of scores."""
    dtype = torch.float64 if q.dtype == torch.float64 else torch.float32
    return torch.empty(q.shape[:3], dtype=dtype, device=q.device)


def _new_outputs(*tensors: torch.Tensor, **options: object) -> Tensors:
    return [new_like(tensors[0]), new_lse(tensors[0])]


def _new_gradients(*tensors: torch.Tensor, **options: object) -> Tensors:
    _, q, k, v, bias, _, lse = tensors
    # Where no bias is given, no gradient of it is asked for.
    return [new_like(q), new_like(k), new_like(v), lse.new_empty(()) if bias is None else bias.new_empty(bias.shape)]


# lse is the natural logarithm of the sum of exp(score) over the keys that a query sees; −inf where it sees none.
CONTRACT = Contract(
    inputs=("q", "k", "v", "bias"),
    outputs=("y", "lse"),
    saved=("q", "k", "v", "bias", "y", "lse"),
    differentiated=(("q",), ("k",), ("v",), ("bias",)),
    new_outputs=_new_outputs,
    new_gradients=_new_gradients,
)


def attention_passes(  # type: ignore[explicit-any]
    forward: Callable[..., Tensors], backward: Callable[..., Given], settings: Settings
) -> Passes:
    """Passes of kernels that take the settings last: forward(q, k, v, bias, settings) returns y and lse;
    backward(upstream, q, k, v, bias, y, lse, settings, wanted) the gradients of the inputs."""

    def run_forward(*inputs: torch.Tensor) -> Tensors:
        check_inputs(*inputs)
        return forward(*inputs, settings)

    def run_backward(*upstream_and_saved: torch.Tensor, wanted: Sequence[bool]) -> Given:
        return backward(*upstream_and_saved, settings, wanted)

    return Passes(run_forward, run_backward)
