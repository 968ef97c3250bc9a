"""The pictures of a trace, beside it: the timeline as a page, the flame graph, its stacks as text."""

from __future__ import annotations

from pathlib import Path

from kernellab.profiling.stacks import collapsed
from kernellab.reporting import flame, timeline
from kernellab.traces.trace import ON_GPU, Trace


def draw(trace: Trace, path: Path, title: str) -> list[Path]:
    """Files named like the trace; stacks only where the trace has any."""
    page = path.with_suffix(".html")
    page.write_text(timeline.page(trace, title))
    return [page, *draw_stacks(trace, path.with_suffix(".svg"), path.with_suffix(".txt"), title)]


def draw_stacks(trace: Trace, svg: Path, text: Path, title: str) -> list[Path]:
    """Self time on the GPU by call stack; of a trace without a GPU, on the CPU."""
    on_gpu = bool(len(trace.rows(*ON_GPU)))
    stacks = collapsed(trace, "gpu" if on_gpu else "cpu")
    text.write_text(flame.text(stacks))
    svg.write_text(flame.svg(title=title, stacks=stacks, whose="GPU time" if on_gpu else "CPU time"))
    return [svg, text]
