"""The pictures of a trace, written beside it: a timeline, flame graphs, and their stacks as text and for speedscope."""

from __future__ import annotations

from pathlib import Path

from kernellab.analysis.stacks import collapse_stacks
from kernellab.base.paths import replace_file
from kernellab.reporting.pages import flame, timeline
from kernellab.traces.trace import ON_GPU, Trace


def draw(trace: Trace, path: Path, title: str) -> list[Path]:
    """Write all pictures, named like the trace. If a GPU was used, CPU time has its own flame graph, `NAME-cpu`."""
    page = path.with_suffix(".html")
    replace_file(page, timeline.page(trace, title).encode())
    stem = path.with_suffix("")
    written = [page, *draw_stacks(trace, stem, title)]
    stacks = {"CPU time": collapse_stacks(trace, "cpu")}
    if len(trace.rows(*ON_GPU)):
        written += _write_stacks(stem.with_name(f"{stem.name}-cpu"), title, "CPU time", stacks["CPU time"])
        stacks = {"GPU time": collapse_stacks(trace, "gpu"), **stacks}
    speedscope = stem.with_name(f"{stem.name}.speedscope.json")
    replace_file(speedscope, flame.speedscope(title, stacks).encode())
    return [*written, speedscope]


def draw_stacks(trace: Trace, stem: Path, title: str) -> list[Path]:
    """A flame graph and its text: GPU time by call stack; CPU time if nothing ran on a GPU."""
    if len(trace.rows(*ON_GPU)):
        return _write_stacks(stem, title, "GPU time", collapse_stacks(trace, "gpu"))
    return _write_stacks(stem, title, "CPU time", collapse_stacks(trace, "cpu"))


def _write_stacks(stem: Path, title: str, quantity: str, stacks: flame.Stacks) -> list[Path]:
    svg, text = (stem.with_name(f"{stem.name}{suffix}") for suffix in (".svg", ".txt"))
    replace_file(svg, flame.svg(title, stacks, quantity).encode())
    replace_file(text, flame.text(stacks).encode())
    return [svg, text]
