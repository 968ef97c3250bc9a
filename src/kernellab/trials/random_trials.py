"""Trials drawn at random by Hypothesis from an op's declaration.

They are drawn in a fixed order with a fixed number of choices: unusual features first, sizes last. Hypothesis shrinks
the first choices hardest, so that a failure first loses its unusual features and then becomes small.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import hypothesis
from hypothesis import strategies

from kernellab.declaration.case import ELLIPSIS, Case, Size
from kernellab.declaration.op import Op
from kernellab.trials import calls
from kernellab.trials.bases import Bases
from kernellab.trials.choosing.small_cases import largest_input
from kernellab.trials.domain import Domain
from kernellab.trials.layouts import CHANNELS_LAST, DEEP_LAYOUTS, LAYOUTS, allows_layout
from kernellab.trials.sizes import shrink_inside
from kernellab.trials.trial import CONTIGUOUS, NORMAL, RANDOM_UPSTREAM, Trial
from kernellab.trials.trial_inputs import UPSTREAM, UPSTREAM_LAYOUTS
from kernellab.trials.values import special_values

MAX_ELEMENTS = 1 << 16  # of an input
INTERPRETER_MAX_ELEMENTS = 1 << 11  # in Triton's interpreter, where each program of a grid takes a millisecond
_MAX_WORK = 1 << 20  # the product of all sizes: a result may be larger than every input
_SMALL = (
    1 << 8,
    1 << 11,
)  # elements of most inputs: many small trials find more in the same time than a few large ones
_MAX_LEADING_DIMS = 4
_KNOWN_SIZES = (1, 2, 3, 7, 16, 17, 33, 64, 65, 127, 128, 129, 256, 257, 1024, 1025)  # of a limited domain

Order = tuple[object, ...]


def simplicity(op: Op, trial: Trial) -> Order:
    """The order in which failures are preferred, lowest first: by their unusual features, then by their sizes."""
    case = trial.case
    options = [values.index(case.options[name]) for name, values in op.all_options().items()]
    lead = case.dims.get(ELLIPSIS, ())
    assert isinstance(lead, tuple)
    return (
        *(trial.pass_name != "forward", trial.call != calls.PLAIN, _ALL_UPSTREAM.index(trial.upstream)),
        *(case.dtype != "float32", case.dtype, options),
        [(NORMAL, *special_values(arg)).index(trial.values.get(name, NORMAL)) for name, arg in op.args.items()],
        [_LAYOUTS.index(trial.layouts.get(name, CONTIGUOUS)) for name in op.args],
        *([size for dim, size in case.dims.items() if dim != ELLIPSIS], len(lead), lead, trial.draw),
    )


def _mostly(usual: str, others: Sequence[str], weight: int) -> strategies.SearchStrategy[str]:
    """`usual` is drawn `weight` times as often as all the others together; shrinking leads to it."""
    return strategies.sampled_from([usual] * max(1, weight * len(others)) + list(others))


def _sizes_up_to(most: int) -> strategies.SearchStrategy[int]:
    """Any number, or a power of two or one of its neighbours.

    When Hypothesis shrinks from a later range to the first one, the number stays the same and shrinks on from there.
    """
    powers = [1 << n for n in range(1, most.bit_length())]
    return strategies.one_of(strategies.integers(0, most), *(strategies.integers(p - 1, p + 1) for p in powers))


_LAYOUTS = [CONTIGUOUS, *LAYOUTS, *DEEP_LAYOUTS, CHANNELS_LAST]
_ALL_UPSTREAM = (*UPSTREAM, *UPSTREAM_LAYOUTS)
_PASS = _mostly("forward", ["backward"], 3)
_CALL = _mostly(calls.PLAIN, [calls.TWICE], 7)
_UPSTREAM = _mostly(_ALL_UPSTREAM[0], _ALL_UPSTREAM[1:], 3)
_LAYOUT = _mostly(_LAYOUTS[0], _LAYOUTS[1:], 1)
_LEADING_DIMS = strategies.sampled_from([0, 1, 1, 2, 2, 3, _MAX_LEADING_DIMS])
_SIZE = _sizes_up_to(MAX_ELEMENTS)
_EITHER = strategies.sampled_from([True, False])
_DRAW = strategies.integers(0, 999)


def random_trials(bases: Bases, max_elements: int, check_time: Callable[[], None]) -> strategies.SearchStrategy[Trial]:
    """`check_time` is called before each trial is drawn, also where the domain accepts none; it may raise.

    Where the domain is limited, most trials are made of cases that are known to be inside, and what is drawn outside
    is moved inside.
    """
    op, domain = bases.op, bases.domain
    dtype_strategy = strategies.sampled_from(sorted(bases.dtypes, key=lambda dtype: dtype != "float32"))
    option_strategies = {name: strategies.sampled_from(values) for name, values in op.all_options().items()}
    value_strategies = {name: _mostly(NORMAL, special_values(arg), 2) for name, arg in op.args.items()}
    limit_strategy = strategies.sampled_from([*(n for n in _SMALL if n < max_elements), max_elements])
    known = _known_cases(bases, max_elements) if domain.is_bounded else []
    device = bases.regular.device

    @strategies.composite
    def trials(draw: strategies.DrawFn) -> Trial:
        check_time()
        pass_name, call, upstream, dtype = draw(_PASS), draw(_CALL), draw(_UPSTREAM), draw(dtype_strategy)
        options = {name: draw(values) for name, values in option_strategies.items()}
        values = {name: draw(strategy) for name, strategy in value_strategies.items()}
        layouts = {name: draw(_LAYOUT) for name in op.args}
        value_draw = draw(_DRAW)
        inside = _draw_inside(domain, draw, known, dtype, options) if known else None
        free = inside is None or draw(_EITHER)
        case = Case(_draw_sizes(op, draw, draw(limit_strategy)), dtype, options, device=device)
        small = largest_input(op, case) <= max_elements and math.prod(case.shape) <= _MAX_WORK
        if inside is not None and not (free and small and domain.accepts(case)):
            case, small = inside, True
        hypothesis.assume(small and domain.accepts(case))
        ranks = {n: len(op.sizes(arg, case)) for n, arg in op.args.items() if not arg.optional or case.options[n]}
        backward = pass_name == "backward"
        trial = Trial(
            "search",
            case,
            layouts={
                n: layouts[n]
                for n, rank in ranks.items()
                if layouts[n] != CONTIGUOUS and allows_layout(op.args[n], layouts[n], rank)
            },
            # At special values, gradients of correct implementations differ.
            values={} if backward else {n: values[n] for n in ranks if values[n] != NORMAL},
            pass_name=pass_name,
            upstream=upstream if backward else RANDOM_UPSTREAM,
            call=calls.BACKWARD_TWICE if backward and call == calls.TWICE else call,
            draw=value_draw,
        )
        return trial if domain.takes(trial) else replace(trial, layouts={})

    return trials()


def _known_cases(bases: Bases, max_elements: int) -> list[Case]:
    """Cases inside the domain with several sizes of each dim, the smallest first; none where none was found."""
    found = [*bases.both, *(case for dim in bases.op.dims for case in bases.resized(dim, _KNOWN_SIZES))]
    small = [shrink_inside(bases.domain, case, max_elements) for case in found if bases.domain.accepts(case)]
    cases = sorted({case.key: case for case in small}.values(), key=lambda case: largest_input(bases.op, case))
    return [case for case in cases if largest_input(bases.op, case) <= max_elements] or cases[:4]


def _draw_inside(
    domain: Domain, draw: strategies.DrawFn, known: Sequence[Case], dtype: str, options: Mapping[str, object]
) -> Case:
    """A known case; sizes of another one, the dtype and the options are taken where the domain accepts them."""
    case, other = draw(strategies.sampled_from(known)), draw(strategies.sampled_from(known))
    largest = largest_input(domain.op, known[-1])
    for dim, size in other.dims.items():
        taken, changed = draw(_EITHER), case.with_(dims={**case.dims, dim: size})
        if taken and largest_input(domain.op, changed) <= largest and domain.accepts(changed):
            case = changed
    for changed in (case.with_(options=options), case.with_(dtype=dtype), case.with_(dtype=dtype, options=options)):
        case = changed if domain.accepts(changed) else case
    return case


def _draw_sizes(op: Op, draw: strategies.DrawFn, max_elements: int) -> dict[str, Size]:
    """Each dim is at most as large as the dims before it leave room for, including the dims that follow it."""
    dims: dict[str, Size] = {dim: (1,) if dim == ELLIPSIS else 1 for dim in op.dims}
    following = {dim: source for dim, source in op.dim_defaults.items() if draw(_EITHER)}
    dims.update({dim: source for dim, source in following.items() if isinstance(source, int)})

    def resized(dim: str, size: Size) -> dict[str, Size]:
        return {**dims, dim: size, **{other: size for other, source in following.items() if source == dim}}

    def draw_size(dim: str, before: tuple[int, ...] = ()) -> int:
        # Drawn from the full range, then cut down: when one dim shrinks, the numbers drawn for the others stay valid.
        size = draw(_SIZE)
        while size and _elements(op, resized(dim, (*before, size) if dim == ELLIPSIS else size)) > max_elements:
            size = size * 3 // 4
        return size

    for dim in op.dims:
        if dim != ELLIPSIS and dim not in following:
            dims = resized(dim, draw_size(dim))
    if ELLIPSIS in dims:  # last: leading dims repeat what the other dims make up
        count = draw(_LEADING_DIMS)
        lead: tuple[int, ...] = ()
        for at in range(_MAX_LEADING_DIMS):  # unused ones too: Hypothesis takes a shorter sequence to be simpler
            size = draw_size(ELLIPSIS, lead)
            lead = (*lead, size) if at < count else lead
        dims[ELLIPSIS] = lead
    return dims


def _elements(op: Op, dims: dict[str, Size]) -> int:
    return largest_input(op, Case(dims, "float32"))
