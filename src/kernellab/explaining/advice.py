"""Which implementation to choose: the effort of each, its speed, and whether torch.compile is enough.

The advice follows from measurements. Without any, it says what usually holds, and that nothing was measured.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kernellab.base.text import plural
from kernellab.explaining.kernel_reader import unfit_kernels
from kernellab.record.derived import Derived, DerivedResult
from kernellab.record.schema import CodeJson
from kernellab.record.statuses import RIGHT

# An implementation within this factor of the fastest is fast enough: a hand-written kernel is not worth the effort.
_ENOUGH = 1.10
_HAND_WRITTEN = ("triton", "cuda", "cpp")

# A task, and whether it is automatic in CUDA C++ and in Triton.
AUTOMATION = (
    ("coalescing accesses to memory", "by hand", "automatic"),
    ("managing shared memory", "by hand", "automatic"),
    ("scheduling inside an SM", "by hand", "automatic"),
    ("scheduling across SMs", "by hand", "by hand"),
)

_WHEN_TO_CHOOSE = {
    "manual": "first: it is the definition, and torch.compile's input",
    "torch": "where PyTorch has the op: nothing to write, nothing to build",
    "compile": "chains of elementwise operators and reductions: no kernel to write",
    "triton": "to control what is fused and what stays on chip; Triton does coalescing and shared memory",
    "cuda": "to control every thread: clusters, layouts of shared memory; NVRTC compiles it at first use",
    "cpp": "on the CPU",
}


@dataclass(frozen=True)
class Choice:
    """A row of the table. Lines and times that are not known are None."""

    impl: str
    kind: str
    kernel_lines: int | None
    launcher_lines: int | None
    build_s: float | None
    time_us: float | None
    fraction: float | None  # of the roofline's limit
    choose: str  # when to choose it


def timed_choices(group: Sequence[DerivedResult], code: Sequence[CodeJson]) -> list[Choice]:
    """The implementations of one op at one case, fastest first. `group` are its results with their verdicts."""
    entries = {entry["impl"]: entry for entry in reversed(code) if entry["op"] == group[0]["op"]}
    rows = [
        _choice(result["impl"], result.get("kind") or "python", entries, result["derived"])
        for result in group
        if result["derived"]["status"] in (*RIGHT, "skipped")
    ]
    rows.sort(key=lambda row: (row.time_us is None, row.time_us or 0.0))
    return rows


def untimed_choices(code: Sequence[CodeJson]) -> list[Choice]:
    """The implementations of one op and case that were compiled where nothing was timed."""
    compiled = [entry for entry in code if entry["status"] in ("ok", "none") and not unfit_kernels(entry)]
    entries = {entry["impl"]: entry for entry in reversed(compiled)}
    return [_choice(impl, entry["kind"], entries, None) for impl, entry in reversed(entries.items())]


def _choice(impl: str, kind: str, entries: Mapping[str, CodeJson], derived: Derived | None) -> Choice:
    # torch.compile compiles the reference, so only the lines of `manual` have to be written.
    entry = entries.get(impl) or (entries.get("manual") if kind == "compile" else None)
    limit, time, build_s = (derived["limit"], derived["time"], derived["build_s"]) if derived else (None, None, None)
    if build_s is None and entry and kind != "compile":
        build_s = sum(k.get("build_s") or 0.0 for k in entry["kernels"]) or None
    return Choice(
        impl=impl,
        kind=kind,
        kernel_lines=entry.get("kernel_lines") if entry else None,
        launcher_lines=entry.get("launcher_lines") if entry else None,
        build_s=build_s,
        time_us=time["median_us"] if time else None,
        fraction=limit["fraction"] if limit else None,
        choose=_WHEN_TO_CHOOSE.get(kind, "where it is the fastest"),
    )


def advice(rows: Sequence[Choice]) -> str:
    """One sentence: whether PyTorch's op or torch.compile is enough here, or a hand-written kernel pays."""
    timed = [row for row in rows if row.time_us]
    if not timed:
        return (
            "Nothing was timed. torch.compile is usually enough for chains of elementwise operators and reductions "
            "that fit a block; a hand-written kernel pays where data must stay on chip across what a compiler splits "
            "into several kernels (wide softmax, attention, matmuls with an unusual epilogue). Measure to decide."
        )
    fastest = min(timed, key=_time_us)
    compiled, own_op = (_fastest_of_kind(timed, kind) for kind in ("compile", "torch"))
    if compiled is None and not any(row.kind in _HAND_WRITTEN for row in timed):
        impls = " and ".join(row.impl for row in timed)
        return f"Only {impls} {'was' if len(timed) == 1 else 'were'} timed: time compile or a kernel to compare."
    if own_op is not None and _time_us(own_op) <= _ENOUGH * _time_us(fastest):
        return f"PyTorch's own op is enough here: {_distance(own_op, fastest)}, and there is nothing to write."
    if compiled is not None and _time_us(compiled) <= _ENOUGH * _time_us(fastest):
        return f"torch.compile is enough here: {_distance(compiled, fastest)}, with no kernel to write."
    if fastest.kind in _HAND_WRITTEN:
        rival = compiled or own_op
        speed = f"{_time_us(rival) / _time_us(fastest):.3g}× as fast as {rival.impl}" if rival else "the fastest"
        return f"A hand-written kernel pays here: {fastest.impl} is {speed}{_effort(fastest)}."
    return f"{fastest.impl} is the fastest here; no hand-written kernel was timed."


def _fastest_of_kind(rows: Sequence[Choice], kind: str) -> Choice | None:
    return min((row for row in rows if row.kind == kind), key=_time_us, default=None)


def _time_us(row: Choice) -> float:
    return row.time_us or float("inf")


def _distance(row: Choice, fastest: Choice) -> str:
    if row is fastest:
        return "it is the fastest"
    percent = max(1.0, 100 * (_time_us(row) / _time_us(fastest) - 1))
    return f"within {percent:.0f} % of the fastest, {fastest.impl}"


def _effort(row: Choice) -> str:
    lines = (row.kernel_lines or 0) + (row.launcher_lines or 0)
    return f", for {plural(lines, 'line')} of code" if lines else ""
