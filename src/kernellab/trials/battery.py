"""The battery: what a kernel is tried with before it is believed, generated from an op's declaration.

Each kind of trial varies one thing from a small base: a dim, the rank, the layout or the values of an input, a
dtype, an option. Two bases, since kernels take other paths: one of the author's sizes, one a little off. Optional
inputs are given in both; what is tried without them is less.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from kernellab.base.errors import UserError
from kernellab.declaration.case import ELLIPSIS, Case, Size
from kernellab.declaration.case_request import CaseRequest
from kernellab.declaration.op import Impl, Op
from kernellab.trials.layouts import CHANNELS_LAST, FAR, INDEX_LAYOUTS, LAYOUTS, fits
from kernellab.trials.small_cases import largest, standin
from kernellab.trials.tensors import UPSTREAM
from kernellab.trials.trial import Trial
from kernellab.trials.values import INDICES, VALUES

_BASE, _SLOW_BASE = 1 << 14, 1 << 10  # elements of the base's largest input, at most; where each program takes long
_SIZED = 1 << 16  # of a trial of sizes, where the other dims can be made smaller
_MOST = 1 << 22  # of any other trial's, but the large ones
SIZES = (0, 1, 2, 3, 7, 15, 16, 17, 31, 32, 33, 64, 65, 97, 127, 128, 129, 255, 256, 257)
_WIDER = (509, 511, 512, 513, 1021, 1023, 1024, 1025, 2049, 4095, 4096, 4097)
_REDUCED = (8191, 8193, 16384, 32769, 65535, 65536, 65537, 131072, 262143, 262144)
_QUICK_SIZES = (0, 1, 2, 33, 128, 129, 1025)
_GRADIENT_SIZES = (0, 1, 97, 1025)
_GRADIENT_REDUCED = (0, 97, 1025, 4097)  # in sums of one or two, terms of gradients cancel: only rounding is left
_RANKS: tuple[tuple[int, ...], ...] = ((), (5,), (3, 5), (2, 3, 5), (2, 1, 3, 2), (0,), (1, 1), (2, 0, 3))
_GRADIENT_VALUES = ("moderately large", "all zero", "all equal")
LARGE = (1 << 31) + 1
_SIGNIFICANT = {"float64": 3, "float32": 2, "float16": 1, "bfloat16": 0}
COMPILED = 10  # trials of ways that torch.compile makes: each compiles for a second or two


class Battery:
    """The trials of one op on one device. `most`: elements of an input at most; ways that need it get fewer trials."""

    def __init__(
        self, op: Op, device: str, *, dtypes: Sequence[str] = (), quick: bool = False, most: int | None = None
    ) -> None:
        self.op, self._quick, self._most = op, quick, most
        self._dtypes = [t for t in op.dtypes if not dtypes or t in dtypes] or list(dtypes)
        self._even = self._base(device)
        self._odd = self._a_little_off(self._even)
        self._others = self._with_others_given(self._even)

    def trials(self) -> list[Trial]:
        """All of them, each once, in the order of their kinds."""
        kinds: Iterable[Callable[[], Iterator[Trial]]] = (
            *(self._options, self._dtype_trials, self._size_trials, self._rank_trials, self._layout_trials),
            *(self._value_trials, self._index_trials, self._gradient_trials, self._call_trials),
            *(() if self._quick else (self._far_trials, self._large_trials)),
        )
        found: dict[str, Trial] = {}
        for make in kinds:
            for trial in make():
                if self._allowed(trial):
                    found.setdefault(trial.key, trial)
        return list(found.values())

    # The bases -----------------------------------------------------------------------------------------

    def _base(self, device: str) -> Case:
        try:
            declared = self.op.expand(CaseRequest(quick=True), device)[0]
        except (UserError, IndexError):  # no declared sizes at all
            sizes: dict[str, Size] = dict.fromkeys(self.op.dims, 64)
            if ELLIPSIS in sizes:
                sizes[ELLIPSIS] = (4,) if len(sizes) > 1 else (4, 64)
            declared = Case(sizes, self._dtypes[0], device=device)
        options = {name: values[0] for name, values in self.op.all_options().items()}
        case = self._given(declared.with_(dtype=self._dtypes[0], options=options), self.op.presence_options)
        return standin(self.op, case, _SLOW_BASE if self._most else _BASE)

    def _given(self, case: Case, names: Iterable[str]) -> Case:
        """With these optional inputs, as far as where= lets them come together."""
        for name in names:
            with_it = case.with_(options={**case.options, name: True})
            case = with_it if defined(self.op, with_it) else case
        return case

    def _with_others_given(self, base: Case) -> list[tuple[Case, list[str]]]:
        """The base without optional inputs, then with each that the base lacks; and the inputs to vary there."""
        bare = base.with_(options={**base.options, **dict.fromkeys(self.op.presence_options, False)})
        alone = [(self._given(bare, [name]), [name]) for name in self.op.presence_options if not base.options[name]]
        missing = [(case, names) for case, names in alone if case.options[names[0]]]
        return [*([(bare, self._floats(bare))] if bare.options != base.options else []), *missing]

    def _floats(self, case: Case) -> list[str]:
        """The float inputs that are given."""
        return [n for n in self._present(case) if not self.op.args[n].is_index]

    def _indices(self, case: Case) -> list[str]:
        return [n for n in self._present(case) if self.op.args[n].is_index]

    def _present(self, case: Case) -> list[str]:
        return [n for n, arg in self.op.args.items() if not arg.optional or case.options[n]]

    def _fitting(self, names: Iterable[str], layout: str, case: Case) -> list[str]:
        return [n for n in names if fits(layout, len(self.op.sizes(self.op.args[n], case)))]

    def _a_little_off(self, case: Case) -> Case:
        """Every dim one less: odd where the author's sizes are even."""
        odd = case
        for dim, size in case.dims.items():
            smaller: Size = tuple(n - (n > 2) for n in size) if isinstance(size, tuple) else size - (size > 2)
            changed = self.op.resize(odd, {dim: smaller})
            odd = changed if defined(self.op, changed) else odd
        return odd

    def _allowed(self, trial: Trial) -> bool:
        if not defined(self.op, trial.case):
            return False
        most = self._most or (math.inf if trial.kind == "large" else _MOST)
        return largest(self.op, trial.case) <= most

    # One kind after the other --------------------------------------------------------------------------

    def _options(self) -> Iterator[Trial]:
        for options in pairwise(self.op.all_options()):
            for base in (self._even, self._odd):
                yield Trial("options", base.with_(options=options))

    def _dtype_trials(self) -> Iterator[Trial]:
        for dtype, base in itertools.product(self._dtypes, (self._even, self._odd)):
            yield Trial("dtypes", base.with_(dtype=dtype))

    def _size_trials(self) -> Iterator[Trial]:
        for dim in self.op.dims:
            if dim == ELLIPSIS and len(self.op.dims) > 1:
                cases = [self._resize(ELLIPSIS, n) for n in self._leading(SIZES)]
            else:
                cases = [self._resize(dim, n) for n in self._sizes(dim)]
            for case in cases:
                for dtype in self._two_dtypes()[: 1 if self._most else None]:
                    yield Trial("sizes", case.with_(dtype=dtype))
        for (other, _), dim in itertools.product(self._others, self.op.dims):
            for n in self._leading(_QUICK_SIZES) if dim == ELLIPSIS else _QUICK_SIZES:
                yield Trial("sizes", self._resize(dim, n).with_(options=other.options))

    def _leading(self, sizes: Sequence[int]) -> list[int]:
        """Those of a leading dim: it repeats the op, which takes time and shows little."""
        return [n for n in sizes if n < (64 if self._quick or self._most else 1024)]

    def _sizes(self, dim: str) -> Sequence[int]:
        if self._quick:
            return _QUICK_SIZES
        return (*SIZES, *_WIDER, *(_REDUCED if dim in self.op.reduces else ()))

    def _resize(self, dim: str, size: Size) -> Case:
        """The odd base with one dim of another size, the other dims made smaller where it would be too much."""
        as_given = (size,) if dim == ELLIPSIS and isinstance(size, int) else size
        case = self._odd.with_(dims={**self._odd.dims, dim: as_given})  # alone: no other dim follows
        while largest(self.op, case) > min(self._most or _SIZED, _SIZED):
            others = {d: math.prod(n) if isinstance(n, tuple) else n for d, n in case.dims.items() if d != dim}
            widest = max(others, key=lambda d: others[d], default=None)
            if widest is None or others[widest] <= 2:
                return case
            shrunk: Size = (2,) if widest == ELLIPSIS else max(2, others[widest] // 4)
            case = case.with_(dims={**case.dims, widest: shrunk})
        return case

    def _two_dtypes(self) -> list[str]:
        """The widest that is common and the narrowest: other vector widths, other rounding."""
        ordered = sorted((t for t in self._dtypes if t != "float64"), key=lambda t: -_SIGNIFICANT[t])
        ordered = ordered or self._dtypes
        return list(dict.fromkeys((ordered[0],) if self._quick else (ordered[0], ordered[-1])))

    def _rank_trials(self) -> Iterator[Trial]:
        if ELLIPSIS not in self.op.dims:
            return
        for lead in _RANKS:
            yield Trial("ranks", self.op.resize(self._odd, {ELLIPSIS: lead}))

    def _layout_trials(self) -> Iterator[Trial]:
        bases = (self._even,) if self._quick else (self._even, self._odd)
        pairs = itertools.product(bases, self._two_dtypes())
        for base, dtype in zip(bases, self._two_dtypes(), strict=False) if self._most else pairs:
            case = base.with_(dtype=dtype)
            for layout in LAYOUTS:
                for names in self._one_then_all(case, layout):
                    yield Trial("layouts", case, layouts=dict.fromkeys(names, layout))
        for case, layout in itertools.product(bases, INDEX_LAYOUTS):
            for name in self._fitting(self._indices(case), layout, case):
                yield Trial("layouts", case, layouts={name: layout})
        case = self._with_four_dims()
        for names in self._one_then_all(case, CHANNELS_LAST):
            yield Trial("layouts", case, layouts=dict.fromkeys(names, CHANNELS_LAST))
        for (case, names), layout in itertools.product(self._others, LAYOUTS):
            yield Trial("layouts", case, layouts=dict.fromkeys(self._fitting(names, layout, case), layout))

    def _with_four_dims(self) -> Case:
        """As many leading dims as it takes, where the op takes any number."""
        lead = (2, 3, 2) if len(self.op.dims) > 1 else (2, 3, 5, 16)
        return self.op.resize(self._even, {ELLIPSIS: lead}) if ELLIPSIS in self.op.dims else self._even

    def _one_then_all(self, case: Case, layout: str | None = None) -> Iterator[list[str]]:
        """Each float input by itself, then all of them at once."""
        names = self._floats(case)
        if layout is not None:
            names = self._fitting(names, layout, case)
        yield from ([n] for n in names)
        if len(names) > 1:
            yield names

    def _value_trials(self) -> Iterator[Trial]:
        dtypes = self._dtypes[:1] if self._quick else self._dtypes
        for dtype, values in itertools.product(dtypes, VALUES):
            case = self._even.with_(dtype=dtype)
            for names in self._one_then_all(case):
                yield Trial("values", case, values=dict.fromkeys(names, values))
        for (case, names), values in itertools.product(self._others, VALUES):
            floats = [n for n in names if not self.op.args[n].is_index]
            yield Trial("values", case, values=dict.fromkeys(floats, values))

    def _index_trials(self) -> Iterator[Trial]:
        for case in (self._odd, *(other for other, _ in self._others)):
            for name, values in itertools.product(self._indices(case), INDICES):
                yield Trial("indices", case, values={name: values})

    def _gradient_trials(self) -> Iterator[Trial]:
        dtypes = self._dtypes[:1] if self._quick else self._dtypes
        for dtype, upstream in itertools.product(dtypes, UPSTREAM):
            for base in (self._even, self._odd):
                yield Trial("gradients", base.with_(dtype=dtype), of="backward", upstream=upstream)
        for options in pairwise(self.op.all_options()):
            yield Trial("gradients", self._even.with_(options=options), of="backward")
        for layout in (*LAYOUTS, CHANNELS_LAST):
            case = self._with_four_dims() if layout == CHANNELS_LAST else self._even
            for names in self._one_then_all(case, layout):
                yield Trial("gradients", case, layouts=dict.fromkeys(names, layout), of="backward")
        for case in self._gradient_sizes():
            yield Trial("gradients", case, of="backward")
        for dtype, values in itertools.product(self._two_dtypes(), self._gradient_values()):
            yield Trial("gradients", self._odd.with_(dtype=dtype), values=values, of="backward")
        yield from self._partial_gradients()
        yield Trial("gradients", self._odd, of="backward", call="backward twice")
        yield Trial("gradients", self._odd, of="double backward")
        if "float64" in self.op.dtypes and "float64" in self._dtypes:
            small = standin(self.op, self._odd.with_(dtype="float64"), 48)
            yield Trial("gradients", small, of="backward", call="gradcheck")

    def _gradient_sizes(self) -> Iterator[Case]:
        for dim in self.op.dims:
            sizes: Sequence[int] = _GRADIENT_SIZES
            if dim in self.op.reduces or self.op.dims == (ELLIPSIS,):  # then it may be reduced without a word
                sizes = _GRADIENT_REDUCED
            if dim == ELLIPSIS and len(self.op.dims) > 1:
                sizes = self._leading(sizes)
            yield from (self._resize(dim, n) for n in ((sizes[0], sizes[-1]) if self._quick else sizes))
        if ELLIPSIS in self.op.dims:
            yield self.op.resize(self._odd, {ELLIPSIS: (2, 3) if len(self.op.dims) > 1 else (2, 3, 5)})

    def _gradient_values(self) -> Iterator[dict[str, str]]:
        """Values at which a derivative overflows or divides by 0; indices that occur more than once."""
        for name, values in itertools.product(self._floats(self._odd), _GRADIENT_VALUES[: 1 if self._quick else None]):
            yield {name: values}
        for name, values in itertools.product(self._indices(self._odd), ("one and the same", "first and last")):
            yield {name: values}

    def _partial_gradients(self) -> Iterator[Trial]:
        """One input asks for a gradient, all but one do; the loss is taken on one result."""
        names = self._floats(self._odd)
        if len(names) > 1:
            some = [*([n] for n in names), *([n for n in names if n != frozen] for frozen in names)]
            yield from (Trial("gradients", self._odd, of="backward", wrt=tuple(wrt)) for wrt in some)
        for number in (0, -1):
            yield Trial("gradients", self._odd, of="backward", loss_on=number)

    def _call_trials(self) -> Iterator[Trial]:
        for call in CALLS:
            for base in (self._even, self._odd):
                yield Trial("calls", base, call=call)

    def _far_trials(self) -> Iterator[Trial]:
        dtype = min(self._dtypes, key=lambda t: _SIGNIFICANT[t])
        for layout in FAR:
            lead: dict[str, Size] = dict.fromkeys(self.op.dims, 3) if layout == "far columns" else {self.op.dims[0]: 3}
            sizes = {d: ((3,) if len(self.op.dims) > 1 else (3, 16)) if d == ELLIPSIS else n for d, n in lead.items()}
            case = self.op.resize(self._even.with_(dtype=dtype), sizes)
            for names in self._one_then_all(case, layout):
                yield Trial("strides", case, layouts=dict.fromkeys(names[:1], layout))

    def _large_trials(self) -> Iterator[Trial]:
        """The first dim so long that 32 bits do not count the elements of an input."""
        if self._most:
            return
        case = self._even.with_(dtype=min(self._dtypes, key=lambda t: _SIGNIFICANT[t]))
        first = self.op.dims[0]
        if first == ELLIPSIS:
            rest = largest(self.op, self.op.resize(case, {ELLIPSIS: (1,)}))
            yield Trial("large", self.op.resize(case, {ELLIPSIS: (-(-LARGE // max(1, rest)),)}))
            return
        now = case.dims[first]
        assert isinstance(now, int)
        rest = max(1, largest(self.op, case) // max(1, now))
        yield Trial("large", case.with_(dims={**case.dims, first: -(-LARGE // rest)}))


def defined(op: Op, case: Case) -> bool:
    """Whether the op's where= takes the case."""
    try:
        return op.where is None or bool(op.where(case))
    except Exception:  # one that divides by a dim of 0
        return False


CALLS = ("twice", "beside large numbers", "on a side stream", "in a CUDA graph", "as a registered op")


def pairwise(options: dict[str, list[Any]]) -> list[dict[str, Any]]:
    """Choices such that every two values of two options meet: all combinations where they are few.

    >>> len(pairwise({"a": [1, 2], "b": [1, 2]})), len(pairwise({n: [1, 2, 3] for n in "abcd"})) < 81
    (4, True)
    """
    names = list(options)
    combinations = [dict(zip(names, choice, strict=True)) for choice in itertools.product(*options.values())]
    if len(combinations) <= 16:
        return combinations
    wanted = {
        (a, i, b, j)
        for a, b in itertools.combinations(names, 2)
        for i in range(len(options[a]))
        for j in range(len(options[b]))
    }
    at = {name: {id(v): i for i, v in enumerate(options[name])} for name in names}
    chosen = []
    while wanted:
        best, covers = combinations[0], set[tuple[str, int, str, int]]()
        for one in combinations[:4096]:
            met = {(a, at[a][id(one[a])], b, at[b][id(one[b])]) for a, b in itertools.combinations(names, 2)} & wanted
            if len(met) > len(covers):
                best, covers = one, met
        if not covers:
            break
        wanted -= covers
        chosen.append(best)
    return chosen


def for_ways(trials: Sequence[Trial], ways: Sequence[Impl]) -> Iterator[tuple[int, Trial, Impl]]:
    """Numbered trials with the ways to try, which share a trial's truth; compiled ways get ten."""
    few = {trial.key for trial in for_compile(trials)}
    for number, trial in enumerate(trials):
        for way in ways:
            if way.kind.name != "compile" or trial.key in few:
                yield number, trial, way


def for_compile(trials: Sequence[Trial]) -> list[Trial]:
    """Ten that differ as much as possible: one of each kind in turn."""
    by_kind: dict[str, list[Trial]] = {}
    for trial in trials:
        if trial.call == "plainly" and trial.loss_on is None and trial.kind not in ("large", "strides"):
            by_kind.setdefault(trial.kind, []).append(trial)
    chosen: list[Trial] = []
    for turn in range(COMPILED):
        for found in by_kind.values():
            at = (2 * turn + 1) * len(found) // (2 * COMPILED)
            if len(chosen) < COMPILED and found[at] not in chosen:
                chosen.append(found[at])
    return chosen
