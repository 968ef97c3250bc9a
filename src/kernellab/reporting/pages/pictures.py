"""The pictures of a trace, beside it: the timeline as a page, flame graphs, their stacks as text and for speedscope."""

from __future__ import annotations

from pathlib import Path

from kernellab.analysis.stacks import collapsed
from kernellab.reporting.pages import flame, timeline
from kernellab.traces.trace import ON_GPU, Trace


def draw(trace: Trace, path: Path, title: str) -> list[Path]:
    """Files named like the trace; where a GPU was at work the CPU's stacks too, as `NAME-cpu`."""
    page = path.with_suffix(".html")
    page.write_text(timeline.page(trace, title))
    stem = path.with_suffix("")
    drawn = [page, *draw_stacks(trace, stem, title)]
    stacks = {"CPU time": collapsed(trace, "cpu")}
    if len(trace.rows(*ON_GPU)):
        drawn += _flames(stem.with_name(f"{stem.name}-cpu"), title, "CPU time", stacks["CPU time"])
        stacks = {"GPU time": collapsed(trace, "gpu"), **stacks}
    speedscope = stem.with_name(f"{stem.name}.speedscope.json")
    speedscope.write_text(flame.speedscope(title, stacks))
    return [*drawn, speedscope]


def draw_stacks(trace: Trace, stem: Path, title: str) -> list[Path]:
    """Self time on the GPU by call stack; of a trace without a GPU, on the CPU."""
    on_gpu = bool(len(trace.rows(*ON_GPU)))
    return _flames(stem, title, "GPU time" if on_gpu else "CPU time", collapsed(trace, "gpu" if on_gpu else "cpu"))


def _flames(stem: Path, title: str, whose: str, stacks: flame.Stacks) -> list[Path]:
    svg, text = (stem.with_name(f"{stem.name}{end}") for end in (".svg", ".txt"))
    svg.write_text(flame.svg(title=title, stacks=stacks, whose=whose))
    text.write_text(flame.text(stacks))
    return [svg, text]
