"""Sweeps in a record: results of one op that differ in one size, and each implementation's curve over it."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import re
import statistics
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from kernellab.declaration.documents import CaseJson
from kernellab.record import verdict
from kernellab.record.derived import DerivedRecord, DerivedResult, TimeVerdict, TrustVerdict
from kernellab.record.statuses import RIGHT

FEWEST = 3  # sizes that make a sweep
_STEM_BYTES = 160  # a file name has at most 255
_FACTOR = 1.4  # between neighbouring sizes of a geometric sweep, at least


@dataclass(frozen=True)
class Point:
    """One implementation at one size: its time, the 0.2 and 0.8 quantiles of its samples, and the rates of these."""

    time: TimeVerdict
    trust: TrustVerdict
    q20_us: float
    q80_us: float
    value: float
    low: float
    high: float
    share: float | None


@dataclass(frozen=True)
class Sweep:
    """One op over the sizes of one dim. `together`: dims that were always as large as it."""

    op: str
    dim: str
    together: tuple[str, ...]
    fixed: Mapping[str, int]
    case: CaseJson  # of the first size; dtype, options, layout and device are the same for all
    groups: Mapping[int, list[DerivedResult]]
    stem: str  # of the names of its files

    @property
    def sizes(self) -> list[int]:
        return list(self.groups)

    @property
    def impls(self) -> list[str]:
        return list(dict.fromkeys(r["impl"] for group in self.groups.values() for r in group))

    @property
    def unit(self) -> str:
        """GB/s; TFLOP/s where the op has matmul flops; µs where its cost is not known."""
        limit = next((r["derived"]["limit"] for g in self.groups.values() for r in g if r["derived"]["limit"]), None)
        if limit is None:
            return "µs"
        return "TFLOP/s" if limit["flops"].get("matmul") else "GB/s"

    @property
    def label(self) -> str:
        over = " = ".join([self.dim, *self.together])
        options = [f"{k}={v}" for k, v in self.case["options"].items()]
        return " · ".join([f"over {over}", *(f"{k}={v}" for k, v in self.fixed.items()), self.case["dtype"], *options])

    def result(self, size: int, impl: str) -> DerivedResult | None:
        return next((r for r in self.groups[size] if r["impl"] == impl), None)

    def curve(self, impl: str) -> dict[int, Point]:
        """The points of an implementation, at the sizes where it is right and was timed."""
        return self._curves.get(impl, {})

    @functools.cached_property
    def _curves(self) -> dict[str, dict[int, Point]]:
        curves: dict[str, dict[int, Point]] = {}
        for size, group in self.groups.items():
            for result in group:
                point = _point(result, self.unit)
                if point is not None:
                    curves.setdefault(result["impl"], {})[size] = point
        return curves

    @property
    def timed(self) -> bool:
        return bool(self._curves)

    @property
    def geometric(self) -> bool:
        """Whether its sizes grow by factors, and so belong on a logarithmic axis."""
        return self.sizes[0] > 0 and all(b >= _FACTOR * a for a, b in itertools.pairwise(self.sizes))


def find(record: DerivedRecord) -> list[Sweep]:
    """The sweeps of a derived record, the longest first. A case belongs to at most one."""
    sweeps: list[Sweep] = []
    for kind, groups in _kinds(record).items():
        candidates = _candidates(groups)
        while candidates:
            (dim, together, fixed), members = max(candidates.items(), key=lambda item: len(item[1]))
            if len(members) < FEWEST:
                break
            sizes = {_dims(groups[m][0])[dim]: groups[m] for m in members}
            first, *_ = ordered = dict(sorted(sizes.items()))
            result = ordered[first][0]
            stem = _file_stem(f"{result['op']}-{dim}-{result['case']['dtype']}")
            sweeps.append(Sweep(kind[0], dim, together, dict(fixed), result["case"], ordered, stem))
            used = set(members)
            unused = {key: [n for n in numbers if n not in used] for key, numbers in candidates.items()}
            candidates = {key: numbers for key, numbers in unused.items() if numbers}
    return _distinguish_stems(sweeps)


def describe_gaps(sweep: Sweep, impl: str) -> str:
    """`wrong at 3 of 8 sizes`, for the sizes without a point."""
    counts: dict[str, int] = {}
    for size in sweep.groups:
        result = sweep.result(size, impl)
        status = "absent" if result is None else result["derived"]["at_case"]["status"]
        if status in RIGHT and size not in sweep.curve(impl):
            status = "not timed"
        if status not in RIGHT:
            counts[status] = counts.get(status, 0) + 1
    return ", ".join(f"{status} at {n} of {len(sweep.groups)} sizes" for status, n in counts.items())


def ceiling(sweep: Sweep, record: DerivedRecord) -> tuple[str, float] | None:
    """What the machine can do at most in the unit of the sweep, and the name of that limit."""
    ceilings = record["machine"].get("ceilings")
    if not ceilings or sweep.unit == "µs":
        return None
    if sweep.unit == "GB/s":
        return "copy bandwidth", ceilings["copy_gbps"]
    rate = ceilings["matmul_tflops"].get(sweep.case["dtype"])
    return ("matmul rate", rate) if rate else None


def _kinds(record: DerivedRecord) -> dict[tuple[str, str], list[list[DerivedResult]]]:
    """The record's groups by op and everything of the case but its sizes."""
    kinds: dict[tuple[str, str], list[list[DerivedResult]]] = {}
    for group in verdict.groups(record["results"]):
        case = {k: v for k, v in group[0]["case"].items() if k != "dims"}
        kinds.setdefault((group[0]["op"], str(case)), []).append(list(group))
    return kinds


_Line = tuple[str, tuple[str, ...], tuple[tuple[str, int], ...]]


def _candidates(groups: list[list[DerivedResult]]) -> dict[_Line, list[int]]:
    """Every line through the cases, with the numbers of its groups: a dim, the dims equal to it, the fixed sizes."""
    lines: dict[_Line, list[int]] = {}
    for number, group in enumerate(groups):
        dims = _dims(group[0])
        for dim, together in _dim_groups(dims):
            fixed = tuple((d, n) for d, n in dims.items() if d != dim and d not in together)
            lines.setdefault((dim, together, fixed), []).append(number)
    return lines


def _dim_groups(dims: Mapping[str, int]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Each dim alone, and together with every combination of later dims of the same size."""
    for at, dim in enumerate(dims):
        equal = [d for d in list(dims)[at + 1 :] if dims[d] == dims[dim]]
        for count in range(len(equal) + 1):
            for together in itertools.combinations(equal, count):
                yield dim, together


def _dims(result: DerivedResult) -> dict[str, int]:
    """The sizes by name. Those of `...` are numbered from 0, as in PyTorch, and come last."""
    named = {k: v for k, v in result["case"]["dims"].items() if isinstance(v, int)}
    leading = [n for v in result["case"]["dims"].values() if isinstance(v, list) for n in v]
    return {**named, **{f"dim{at}": n for at, n in enumerate(leading)}}


def _distinguish_stems(sweeps: list[Sweep]) -> list[Sweep]:
    """Adds fixed sizes and options to the names of files that would be the same without them."""
    stems = [sweep.stem for sweep in sweeps]
    distinct: list[Sweep] = []
    for sweep in sweeps:
        if stems.count(sweep.stem) > 1:
            more = {**sweep.fixed, **sweep.case["options"], **dict.fromkeys(sweep.together, "same")}
            stem = "-".join([sweep.stem, *(f"{k}_{v}" for k, v in more.items())])
            sweep = dataclasses.replace(sweep, stem=_file_stem(stem))
        earlier = [other.stem for other in distinct]
        numbered = (f"{sweep.stem}-{number}" for number in itertools.count(2))
        free = next(stem for stem in (sweep.stem, *itertools.islice(numbered, len(sweeps))) if stem not in earlier)
        distinct.append(dataclasses.replace(sweep, stem=free))
    return distinct


def _file_stem(text: str) -> str:
    """A text as a part of a file name: a record may be a stranger's, and its names are no paths."""
    return re.sub(r"[^\w.-]+", "_", text).encode()[:_STEM_BYTES].decode(errors="ignore")


def _point(result: DerivedResult, unit: str) -> Point | None:
    derived, values = result["derived"], verdict.samples(result)
    time, trust = derived["time"], derived["trust"]
    if derived["at_case"]["status"] not in RIGHT or time is None or trust is None:
        return None
    quantiles = statistics.quantiles(values, n=5, method="inclusive") if len(values) > 1 else values
    q20, q80 = quantiles[0], quantiles[-1]
    if min(time["median_us"], q20) <= 0:
        return None
    limit = derived["limit"]
    if limit is None or unit == "µs":
        return Point(time, trust, q20, q80, time["median_us"], q20, q80, None)
    work = limit["flops"].get("matmul", 0) / 1e6 if unit == "TFLOP/s" else limit["bytes"] / 1e3
    return Point(time, trust, q20, q80, work / time["median_us"], work / q80, work / q20, limit["fraction"])
