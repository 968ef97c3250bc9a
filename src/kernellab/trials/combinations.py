"""Trials that vary several things at once: every two unusual values of two factors occur in one of them.

A kernel may be wrong in bfloat16 with one option only, or in its backward with three dims and a gradient that is not
contiguous. The factors are dtype, options, optional inputs, sizes, number of dims, and the layouts of the inputs and of
the upstream gradient; each pass has trials of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kernellab.declaration.case import ELLIPSIS, Case, Size
from kernellab.trials.bases import Bases
from kernellab.trials.choosing.covering import Assignment, cover_pairs
from kernellab.trials.choosing.pairwise import pairwise
from kernellab.trials.choosing.small_cases import largest_input
from kernellab.trials.sizes import spread
from kernellab.trials.trial import CONTIGUOUS, RANDOM_UPSTREAM, Trial

# Expanded inputs are left out: their gradients lie at kinks.
_LAYOUTS = (
    *(CONTIGUOUS, "transposed", "sliced columns", "every second element"),
    *("first two dims swapped", "second dim sliced", "misaligned"),
)
_OTHER_LAYOUTS = (CONTIGUOUS, "sliced columns", "every second element")  # of the inputs after the first
_FEW_LAYOUTS = (CONTIGUOUS, "transposed", "sliced columns")
_UPSTREAM = (RANDOM_UPSTREAM, "non-contiguous", "expanded", "sliced columns", "first two dims swapped")
_FEW_UPSTREAM = (RANDOM_UPSTREAM, "non-contiguous")
_LONG, _SLOW_LONG = 4160, 1088  # beyond a block, and no power of two
_MOST_LONG_DIMS = 4
_LEADS: tuple[tuple[int, ...], ...] = ((), (5,), (3, 5), (2, 3, 4))
_MOST_ELEMENTS = 1 << 18


@dataclass(frozen=True)
class _Sizes:
    """Which base, and the dim that is long there."""

    odd: bool = False
    long: str | None = None


def combination_trials(bases: Bases) -> Iterator[Trial]:
    passes = ["forward", *(["backward"] if bases.op.gradient_args else [])]
    for pass_name in passes:
        maker = _Maker(bases, pass_name)
        yield from cover_pairs({name: len(values) for name, values in maker.factors.items()}, maker.make)


class _Maker:
    """Makes the trials of one pass."""

    def __init__(self, bases: Bases, pass_name: str) -> None:
        self.bases, self.pass_name = bases, pass_name
        few = bases.quick or bases.slow
        usual = bases.regular
        self.factors: dict[str, Sequence[object]] = {
            "dtype": _first(usual.dtype, bases.dtypes),
            **{
                f"option {name}": _first(usual.options[name], values) for name, values in bases.op.all_options().items()
            },
            "sizes": self._sizes(few),
            "dims": self._leads(few),
        }
        for number, name in enumerate(bases.float_inputs(usual)):
            layouts = _FEW_LAYOUTS if few else _LAYOUTS if number == 0 else _OTHER_LAYOUTS
            self.factors[f"layout {name}"] = [layout for layout in layouts if self._has(name, layout)]
        if pass_name != "forward":
            self.factors["upstream"] = _FEW_UPSTREAM if few else _UPSTREAM
        # Sizes that are inside with other options: the bases may not be.
        self._known = [*bases.both, *(c for o in pairwise(bases.op.all_options()) for c in bases.pair(options=o))]

    def _sizes(self, few: bool) -> list[_Sizes]:
        dims = self.bases.op.dims
        long = [_Sizes(long=dim) for dim in spread(dims, _MOST_LONG_DIMS)]
        return [_Sizes(), *long[-1:]] if few else [_Sizes(), _Sizes(odd=True), *long]

    def _leads(self, few: bool) -> list[tuple[int, ...] | None]:
        """Leading dims; None for those of the base. In an op without named dims, they stand before its last dim."""
        own = self.bases.regular.dims.get(ELLIPSIS)
        if not isinstance(own, tuple):
            return [None]
        count = len(own) if len(self.bases.op.dims) > 1 else len(own) - 1
        others = [lead for lead in _LEADS if len(lead) != count]
        return [None, *([lead for lead in others if len(lead) in (0, 2)] if few else others)]

    def _has(self, name: str, layout: str) -> bool:
        """Whether an input can have a layout, with any number of leading dims."""
        cases = (self.bases.regular, *self.bases.deep_cases())
        return any(self.bases.inputs_fitting(layout, [name], case) for case in cases)

    def make(self, chosen: Assignment) -> Trial | None:
        values = {name: self.factors[name][at] for name, at in chosen.items()}
        options = {name: values[f"option {name}"] for name in self.bases.op.all_options()}
        case = self._case(str(values["dtype"]), options, values["sizes"], values["dims"])
        if case is None:
            return None
        layouts = {
            name.removeprefix("layout "): str(layout)
            for name, layout in values.items()
            if name.startswith("layout ") and layout != CONTIGUOUS
        }
        given = self.bases.float_inputs(case)
        for name, layout in layouts.items():
            if name not in given or not self.bases.inputs_fitting(layout, [name], case):
                return None
        upstream = str(values.get("upstream", RANDOM_UPSTREAM))
        trial = Trial("combinations", case, layouts=layouts, pass_name=self.pass_name, upstream=upstream)
        return trial if self.bases.domain.takes(trial) else None

    def _case(self, dtype: str, options: dict[str, object], sizes: object, lead: object) -> Case | None:
        assert isinstance(sizes, _Sizes)
        for known in self._sized(sizes):
            case = known.with_(dtype=dtype, options=options)
            if isinstance(lead, tuple):
                case = case.with_(dims={**case.dims, ELLIPSIS: self._lead(case, lead, sizes)})
            small = largest_input(self.bases.op, case) <= min(_MOST_ELEMENTS, self.bases.max_elements)
            if (small or case.dims == known.dims) and self.bases.domain.accepts(case):
                return case
            if self.bases.domain.is_explored:
                break
        return None

    def _sized(self, sizes: _Sizes) -> list[Case]:
        if sizes.long is not None:
            size = _SLOW_LONG if self.bases.slow else _LONG
            return list(self.bases.resized_to(sizes.long, [size]).values())
        return [self.bases.odd, *self._known] if sizes.odd else self._known

    def _lead(self, case: Case, lead: tuple[int, ...], sizes: _Sizes) -> Size:
        own = case.dims[ELLIPSIS]
        assert isinstance(own, tuple)
        if len(self.bases.op.dims) == 1:
            return (*lead, *own[-1:])
        return (*lead[:-1], max(own)) if sizes.long == ELLIPSIS and lead else lead


def _first(usual: object, values: Sequence[object]) -> list[object]:
    """The values, the usual one first."""
    return [usual, *(value for value in values if repr(value) != repr(usual))]
