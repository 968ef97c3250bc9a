"""Which way to choose: what each takes to write and to build, what it gives, and whether compiling is enough.

Derived from measurements where there are any. Where there are none it says what usually holds, and that it is that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kernellab.gpumodel.subject import refusals

_ENOUGH = 1.10  # within this of the fastest nobody should write a kernel for the rest

# Who does what: in CUDA C++, in Triton.
WHO_DOES_WHAT = (
    ("coalescing accesses to memory", "by hand", "automatic"),
    ("managing shared memory", "by hand", "automatic"),
    ("scheduling inside an SM", "by hand", "automatic"),
    ("scheduling across SMs", "by hand", "by hand"),
)

_CHOOSE = {
    "manual": "first: it is the definition, and torch.compile's input",
    "torch": "where PyTorch has the op: nothing to write, nothing to build",
    "compile": "chains of elementwise operators and reductions: no kernel to write",
    "triton": "to decide what is fused and what stays on chip; coalescing and shared memory are Triton's",
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
    fraction: float | None
    choose: str


def choices(group: Sequence[Mapping[str, Any]], code: Sequence[Mapping[str, Any]]) -> list[Choice]:
    """The ways of one op at one case, fastest first; `group` are results with their verdicts."""
    entries = {entry["impl"]: entry for entry in reversed(code) if entry["op"] == group[0]["op"]}
    rows = [_row(result, entries) for result in group if result["derived"]["status"] in ("ok", "skipped")]
    rows.sort(key=lambda row: (row.time_us is None, row.time_us or 0.0))
    return rows


def untimed_choices(code: Sequence[Mapping[str, Any]]) -> list[Choice]:
    """The ways of one op and case that were compiled where nothing was timed."""
    made = [entry for entry in code if entry["status"] in ("ok", "none") and not refusals(entry)]
    entries = {entry["impl"]: entry for entry in reversed(made)}
    return [_choice(impl, entry["kind"], entries, {}) for impl, entry in reversed(entries.items())]


def _row(result: Mapping[str, Any], entries: Mapping[str, Mapping[str, Any]]) -> Choice:
    return _choice(result["impl"], result.get("kind") or "python", entries, result["derived"])


def _choice(impl: str, kind: str, entries: Mapping[str, Mapping[str, Any]], derived: Mapping[str, Any]) -> Choice:
    # What torch.compile is given is the reference: whoever wrote that has written all there is to write.
    entry = entries.get(impl) or (entries.get("manual") if kind == "compile" else None) or {}
    limit, time, build = (derived.get(name) for name in ("limit", "time", "build_s"))
    if build is None and entry.get("kernels") and kind != "compile":
        build = sum(k.get("build_s") or 0.0 for k in entry["kernels"]) or None
    return Choice(
        impl=impl,
        kind=kind,
        kernel_lines=entry.get("kernel_lines"),
        launcher_lines=entry.get("launcher_lines"),
        build_s=build,
        time_us=time["median_us"] if time else None,
        fraction=limit["fraction"] if limit else None,
        choose=_CHOOSE.get(kind, "where it is the fastest"),
    )


def advice(rows: Sequence[Choice]) -> str:
    """Whether compiling is enough here or a hand-written kernel pays, in a sentence."""
    timed = {row.impl: row for row in rows if row.time_us}
    written = [row for row in timed.values() if row.kind in ("triton", "cuda", "cpp")]
    least = {kind: min((r for r in timed.values() if r.kind == kind), key=_time, default=None) for kind in _CHOOSE}
    compiled, own = least["compile"], least["torch"]
    if not timed:
        return (
            "Without times: torch.compile is usually enough for chains of elementwise operators and reductions that "
            "fit a block; a hand-written kernel pays where data must stay on chip across what a compiler splits into "
            "several kernels (wide softmax, attention, matmuls with an unusual epilogue). Measuring decides."
        )
    best = min(timed.values(), key=_time)
    if compiled is None and not written:
        return f"Nothing but {' and '.join(timed)} was timed: compile or a kernel of your own would tell what pays."
    if own is not None and _time(own) <= _ENOUGH * _time(best):
        return f"PyTorch's own op is enough here: {_near(own, best)}, and there is nothing to write."
    if compiled is not None and _time(compiled) <= _ENOUGH * _time(best):
        return f"torch.compile is enough here: {_near(compiled, best)}, with no kernel to write."
    if best.kind in ("triton", "cuda", "cpp"):
        rival = compiled or own
        over = f"{_time(rival) / _time(best):.3g}× as fast as {rival.impl}" if rival else "the fastest"
        return f"A hand-written kernel pays here: {best.impl} is {over}{_lines(best)}."
    return f"{best.impl} is the fastest here; no hand-written kernel was timed against it."


def _time(row: Choice) -> float:
    return row.time_us or float("inf")


def _near(row: Choice, best: Choice) -> str:
    more = _time(row) / _time(best) - 1
    return "it is the fastest" if row is best else f"within {max(1.0, 100 * more):.0f} % of the fastest, {best.impl}"


def _lines(row: Choice) -> str:
    total = (row.kernel_lines or 0) + (row.launcher_lines or 0)
    return f", for {total} line{'' if total == 1 else 's'} of code" if total else ""
