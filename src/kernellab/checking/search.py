"""Searching beyond the battery: Hypothesis draws trials from an op's declaration, and shrinks the first that fails.

What is drawn comes in a fixed order and a fixed number of choices, the strange things first and the sizes last:
Hypothesis shrinks what comes first hardest, so that a failure ends up as plain as it can be, then as small.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import hypothesis
from hypothesis import strategies

from kernellab.base.paths import cache_dir
from kernellab.checking.confirmation import surely
from kernellab.declaration.case import ELLIPSIS, Case, Size
from kernellab.declaration.op import Op
from kernellab.trials.battery import defined
from kernellab.trials.layouts import CHANNELS_LAST, LAYOUTS, fits
from kernellab.trials.small_cases import largest
from kernellab.trials.trial import Trial
from kernellab.trials.trial_inputs import UPSTREAM
from kernellab.trials.values import INDICES, VALUES

MOST = 1 << 16  # elements of an input
_WORK = 1 << 20  # every size times every other: a result may be larger than all inputs
INTERPRETED = 1 << 11  # in Triton's interpreter, where each program of a grid takes a millisecond
_SMALL = (1 << 8, 1 << 11)  # of most inputs: many small trials find more in the same time than a few large ones
_ROUND = 10  # after so many Hypothesis would begin to vary what it has drawn, instead of drawing anew
_RANK = 4  # leading dims at most
_DRAWING = 0.75  # of the time; the rest is for shrinking
_FAILED = ("wrong", "error")

Examine = Callable[[Trial], "dict[str, Any] | None"]
Draw = Callable[[strategies.SearchStrategy[Any]], Any]


@dataclass
class Found:
    """What a search came to: how many trials it took, and the smallest that fails, with what was observed."""

    drawn: int = 0  # trials examined until one failed, or time was up
    outside: int = 0  # of those, the ones that the way does not take
    shrinking: int = 0  # trials examined to make the failure smaller
    seconds: float = 0.0
    trial: Trial | None = None
    observed: dict[str, Any] | None = None


class _Over(BaseException):
    """Ends a search from inside: Hypothesis lets it through."""


class _Failed(Exception):
    """What Hypothesis shrinks."""


def find(
    op: Op,
    examine: Examine,
    *,
    seconds: float,
    seed: int,
    device: str,
    dtypes: Sequence[str] = (),
    most: int | None = None,
) -> Found:
    """Draw trials until one fails or time is up. `examine` may raise: that ends the search, and is passed on."""
    hunt = _Hunt(op, examine, seconds)
    # Hypothesis keeps numbers it finds in source files, in the working directory unless it is told where.
    os.environ.setdefault("HYPOTHESIS_STORAGE_DIRECTORY", str(cache_dir("hypothesis")))
    quiet = hypothesis.settings(
        database=None,  # failures are kept as trials, which outlive a change of the declaration
        derandomize=False,  # the seed decides
        deadline=None,
        max_examples=_ROUND,
        phases=(hypothesis.Phase.generate, hypothesis.Phase.shrink),
        suppress_health_check=list(hypothesis.HealthCheck),
        verbosity=hypothesis.Verbosity.quiet,
        print_blob=False,
        report_multiple_bugs=False,
    )
    trials = _trials(op, device, dtypes, min(most or MOST, MOST), hunt.look_at_the_clock)
    with contextlib.suppress(_Over):
        for number in itertools.count():
            # A flaky way, or a round in which nothing was defined.
            with contextlib.suppress(_Failed, hypothesis.errors.HypothesisException):
                hypothesis.seed((seed << 32) + number)(quiet(hypothesis.given(trials)(hunt.judge)))()
            if hunt.found.trial is not None:
                break
    if hunt.broken is not None:
        raise hunt.broken
    return hunt.end()


class _Hunt:
    """Judges what is drawn, each trial once, and keeps the plainest failure."""

    def __init__(self, op: Op, examine: Examine, seconds: float) -> None:
        self.op, self._examine = op, examine
        self._began = time.monotonic()
        self._seconds, self._until = seconds, self._began + _DRAWING * seconds
        self._known: dict[str, bool] = {}
        self._forward_only = False  # learned from the first backward pass that was refused
        self._kind: tuple[str, str] | None = None  # of the first failure: another one is another story
        self.found = Found()
        self.broken: Exception | None = None

    def look_at_the_clock(self) -> None:
        if time.monotonic() > self._until:
            raise _Over

    def judge(self, trial: Trial) -> None:
        if trial.key not in self._known:
            self._known[trial.key] = self._fails(trial)
        if self._known[trial.key]:
            raise _Failed

    def _fails(self, trial: Trial) -> bool:
        if self._forward_only and trial.of != "forward":
            return False
        try:
            observed = surely(self._examine, trial)
        except Exception as error:
            self.broken = error
            raise _Over from error
        if observed is None:
            return False
        if self._kind is None:
            self.found.drawn += 1
            self.found.outside += observed["status"] in ("outside", "unknown")
        else:
            self.found.shrinking += 1
        if observed["status"] not in _FAILED:
            self._forward_only |= observed["status"] == "outside" and "not differentiable" in str(observed["reason"])
            return False
        kind = _kind(observed)
        if self._kind is None:
            self._kind, self._until = kind, self._began + self._seconds
        if kind != self._kind:
            return False
        best = self.found.trial
        if best is None or plainness(self.op, trial) < plainness(self.op, best):
            self.found.trial, self.found.observed = trial, observed
        return True

    def end(self) -> Found:
        self.found.seconds = round(time.monotonic() - self._began, 2)
        return self.found


def _kind(observed: dict[str, Any]) -> tuple[str, str]:
    """What is wrong, whatever the numbers: wrong values are wrong values, finite or not."""
    reason = str(observed["reason"])
    return observed["status"], "values" if "values" in reason else reason.split(" ")[0]


def plainness(op: Op, trial: Trial) -> tuple[Any, ...]:
    """How a failure is preferred to another, the least best: by what is strange about it, then by its sizes."""
    case = trial.case
    chosen = [values.index(case.options[name]) for name, values in op.all_options().items()]
    lead = case.dims.get(ELLIPSIS, ())
    assert isinstance(lead, tuple)
    return (
        *(trial.of != "forward", trial.call != "plainly", UPSTREAM.index(trial.upstream)),
        *(case.dtype != "float32", case.dtype, chosen),
        [_VALUES.index(trial.values.get(name, "normal")) for name in op.args],
        [_LAYOUTS.index(trial.layouts.get(name, "contiguous")) for name in op.args],
        *([size for dim, size in case.dims.items() if dim != ELLIPSIS], len(lead), lead, trial.draw),
    )


# What can be drawn -------------------------------------------------------------------------------------


def _mostly(usual: str, others: Sequence[str], weight: int) -> strategies.SearchStrategy[str]:
    """The usual one `weight` times as often as all the others together, and first where it is shrunk."""
    return strategies.sampled_from([usual] * (weight * len(others)) + list(others))


def _sizes_up_to(most: int) -> strategies.SearchStrategy[int]:
    """Any, or a power of two or its neighbour.

    A number stays what it is when Hypothesis shrinks from a later range to the first, and goes on from there.
    """
    powers = [1 << n for n in range(1, most.bit_length())]
    return strategies.one_of(strategies.integers(0, most), *(strategies.integers(p - 1, p + 1) for p in powers))


_VALUES = ["normal", *VALUES, *INDICES]
_LAYOUTS = ["contiguous", *LAYOUTS, CHANNELS_LAST]
_PASS = _mostly("forward", ["backward"], 3)
_CALL = _mostly("plainly", ["twice"], 7)
_ABOVE = _mostly(UPSTREAM[0], UPSTREAM[1:], 3)
_LAYOUT = _mostly(_LAYOUTS[0], _LAYOUTS[1:], 1)
_FILL = {False: _mostly("normal", list(VALUES), 2), True: _mostly("normal", list(INDICES), 2)}
_LEAD = strategies.sampled_from([0, 1, 1, 2, 2, 3, _RANK])
_SIZE = _sizes_up_to(MOST)
_FOLLOWS = strategies.sampled_from([True, False])
_DRAW = strategies.integers(0, 999)


def _trials(
    op: Op, device: str, dtypes: Sequence[str], most: int, go_on: Callable[[], None]
) -> strategies.SearchStrategy[Trial]:
    known = [t for t in op.dtypes if not dtypes or t in dtypes] or list(dtypes)
    dtype_of = strategies.sampled_from(sorted(known, key=lambda t: t != "float32"))
    options_of = {name: strategies.sampled_from(values) for name, values in op.all_options().items()}
    limit = strategies.sampled_from([*(n for n in _SMALL if n < most), most])

    @strategies.composite
    def trials(draw: Draw) -> Trial:
        go_on()  # also where nothing that is drawn is ever defined
        of, call, upstream, dtype = draw(_PASS), draw(_CALL), draw(_ABOVE), draw(dtype_of)
        options = {name: draw(values) for name, values in options_of.items()}
        filled = {name: draw(_FILL[arg.is_index]) for name, arg in op.args.items()}
        laid = {name: draw(_LAYOUT) for name in op.args}
        values_from = draw(_DRAW)
        case = Case(_sizes(op, draw, draw(limit)), dtype, options, device=device)
        hypothesis.assume(defined(op, case) and largest(op, case) <= most and math.prod(case.shape) <= _WORK)
        given = {n: len(op.sizes(arg, case)) for n, arg in op.args.items() if not arg.optional or options[n]}
        backward = of == "backward"
        return Trial(
            "search",
            case,
            layouts={n: laid[n] for n, rank in given.items() if laid[n] != "contiguous" and fits(laid[n], rank)},
            # Where the values are strange, gradients differ between ways that are right.
            values={} if backward else {n: filled[n] for n in given if filled[n] != "normal"},
            of=of,
            upstream=upstream if backward else "random",
            call="backward twice" if backward and call == "twice" else call,
            draw=values_from,
        )

    return trials()


def _sizes(op: Op, draw: Draw, most: int) -> dict[str, Size]:
    """Each dim as large as the ones before it leave room for, counting those that follow it."""
    dims: dict[str, Size] = {dim: (1,) if dim == ELLIPSIS else 1 for dim in op.dims}
    followed = {dim: source for dim, source in op.dim_defaults.items() if draw(_FOLLOWS)}
    dims.update({dim: source for dim, source in followed.items() if isinstance(source, int)})

    def sized(dim: str, size: Size) -> dict[str, Size]:
        return {**dims, dim: size, **{other: size for other, source in followed.items() if source == dim}}

    def size(dim: str, before: tuple[int, ...] = ()) -> int:
        # Cut down, not drawn from what is left: a dim that shrinks leaves the numbers drawn for the others as they are.
        drawn = int(draw(_SIZE))
        while drawn and largest(op, Case(sized(dim, (*before, drawn) if dim == ELLIPSIS else drawn), "float32")) > most:
            drawn = drawn * 3 // 4
        return drawn

    for dim in op.dims:
        if dim != ELLIPSIS and dim not in followed:
            dims = sized(dim, size(dim))
    if ELLIPSIS in dims:  # last: it repeats what the other dims make
        rank = draw(_LEAD)
        lead: tuple[int, ...] = ()
        for at in range(_RANK):  # the unused ones too: a shorter sequence of choices would count as simpler
            one = size(ELLIPSIS, lead)
            lead = (*lead, one) if at < rank else lead
        dims[ELLIPSIS] = lead
    return dims
