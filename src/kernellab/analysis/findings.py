"""Causes ranked and put into words. The first says what to do first.

What one line does wrong comes before what the whole program's shape makes of it: a step that waits for `print(loss)`
may be launch-bound as well, and the line is the one to change.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kernellab.analysis.causes import Analysis, Cause, is_launch_bound
from kernellab.analysis.cpu_time import CpuTime
from kernellab.analysis.replay import Change
from kernellab.traceview.places import UNKNOWN_PLACE, Place

_WORTH = 0.02  # of a step: less is not said
_BUSY = 0.9
_LIKELY = 1.5


def ranked(analysis: Analysis, causes: Sequence[Cause], cpu: CpuTime | None) -> list[dict[str, Any]]:
    """`cpu`: where the time goes without a GPU. What has most of it comes first then: work, or a line at fault."""
    if analysis.view.missing_work.substantial:
        return [_missing(analysis)]
    worth = sorted((one for one in causes if one.share >= _WORTH), key=lambda one: (not one.leads, -one.gain_ns))
    found = [_finding(cause) for cause in worth]
    if cpu is None:
        return found or [_busy(analysis)]
    larger = not worth or cpu.most_ns > worth[0].share * cpu.whole_ns
    return [_cpu_only(analysis, cpu), *found] if larger else found


def _finding(cause: Cause) -> dict[str, Any]:
    step_us = cause.step_ns / 1e3
    title, do = _WORDS[cause.kind](cause, step_us)
    for other in cause.same_line:
        title += f"; the same line's {other.place.call}() {_also(other)}"
        do += f" And: {_WORDS[other.kind](other, step_us)[1]}"
    evidence = {**cause.evidence, "stepping": cause.has_steps}
    return _document(cause.kind, title, do, cause.place, step_us, cause.gain_ns / 1e3, evidence)


def _document(
    kind: str, title: str, do: str, place: Place, step_us: float, gain_us: float, evidence: Mapping[str, Any]
) -> dict[str, Any]:
    return {
        "kind": kind,
        "title": title,
        "do": do,
        "file": place.file,
        "line": place.line,
        "function": place.function,
        "call": place.call,
        "code": place.code,
        "exact": place.exact,
        "gain_us": round(gain_us, 3),
        "gain_share": round(gain_us / step_us, 4) if step_us else 0.0,
        "step_us": round(step_us, 3),
        "step_without_us": round(step_us - gain_us, 3),
        "evidence": {key: round(v, 3) if isinstance(v, float) else v for key, v in evidence.items()},
    }


def _also(cause: Cause) -> str:
    """What a line does besides."""
    if cause.kind == "copy":
        return f"{_copies(cause)}, {_time(cause.evidence['wait_us'])}{_a_step(cause)}"
    return "waits for the GPU" if cause.kind == "wait" else f"takes {_time(cause.evidence['cpu_us'])}{_a_step(cause)}"


def _a_step(cause: Cause) -> str:
    return " a step" if cause.has_steps else ""


def _kernels(count: float) -> str:
    return f"{count:.0f} kernel" + ("" if round(count) == 1 else "s")


def _often(cause: Cause) -> str:
    times, per_step = cause.evidence["count"], cause.evidence["per_step"]
    if not cause.has_steps:
        return "once" if times == 1 else f"{times} times"
    if 0.85 < per_step < 1.05:  # the first and the last may lie outside
        return "in every step"
    return f"{per_step:.0f} times a step" if per_step > 1 else f"in one step of {max(1 / per_step, 2):.0f}"


def _wait(cause: Cause, step_us: float) -> tuple[str, str]:
    seen = cause.evidence
    title = f"{cause.place} makes the CPU wait for the GPU {_often(cause)}"
    # As it was watched, the GPU may have idled for longer than it does: the profiler slows the CPU.
    if 0.01 * step_us <= seen["idle_us"] <= _LIKELY * cause.gain_ns / 1e3:
        title += f", and the GPU then idles {_time(seen['idle_us'])}"
    return title, "Do it less often, every hundredth step, or keep the value on the GPU and read it later."


def _copy(cause: Cause, step_us: float) -> tuple[str, str]:
    seen = cause.evidence
    often, wait = _often(cause), _time(seen["wait_us"])
    title = f"{cause.place} {_copies(cause)} {often}, and the CPU waits for it {wait}"
    if seen["to_gpu"]:
        return (
            title,
            "Keep it on the GPU, or pin it and copy the next step's early: non_blocking=True, on a stream of its own.",
        )
    return title, "Leave it on the GPU, or copy to pinned memory with non_blocking=True and read it a step later."


def _copies(cause: Cause) -> str:
    return f"copies {'to' if cause.evidence['to_gpu'] else 'from'} the GPU"


def _loader(cause: Cause, step_us: float) -> tuple[str, str]:
    seen = cause.evidence
    whom = "starves the GPU" if seen["on_gpu"] else "holds the program up"
    title = f"The data loader {whom}: {cause.place} takes {_time(seen['cpu_us'])}{_a_step(cause)}"
    if seen["workers"]:
        return title, (
            "Its workers do not keep up: have each prepare less, give it more of them where there are cores, and keep "
            "them from epoch to epoch (persistent_workers)."
        )
    return title, "Give the DataLoader workers (num_workers, prefetch_factor, persistent_workers), or prepare less."


def _host(cause: Cause, step_us: float) -> tuple[str, str]:
    title = f"{cause.place} keeps the CPU {_time(cause.evidence['cpu_us'])}{_a_step(cause)} and asks nothing of the GPU"
    return title, "Move it out of the loop, into another thread or process, or do it less often."


def _fusion(cause: Cause, step_us: float) -> tuple[str, str]:
    seen = cause.evidence
    names = " → ".join(name.removeprefix("aten::")[:40] for name in seen["operators"][:8])
    where = f"{cause.place}: " if cause.place.file else ""
    times = seen["moved_bytes"] / max(seen["fewest_bytes"], 1)
    title = (
        f"{where}{seen['kernels']:.0f} kernels{_a_step(cause)} could be {seen['fused']:.0f} ({names});"
        f" they move {times:.1f} times the bytes needed"
    )
    return title, "Use PyTorch's own operator for it, torch.compile, or one kernel of your own."


def _launch(cause: Cause, step_us: float) -> tuple[str, str]:
    seen = cause.evidence
    on = " × ".join(str(tuple(shape)) for shape in seen["shapes"][:3])
    where = f" ({cause.place}{', on ' + on if on else ''})" if cause.place.file else f" (on {on})" if on else ""
    bound = "Launch-bound" if seen["sure"] else "Launch-bound, unless it is the profiler that slows the CPU"
    title = (
        f"{bound}: the CPU takes {_time(seen['cpu_us'])} to ask for {_time(seen['gpu_us'])} of GPU work,"
        f" {_kernels(seen['kernels'])}{_a_step(cause)}{where}"
    )
    return (
        title,
        "Give it larger batches, or launch a step as one: CUDA graphs, torch.compile(mode='reduce-overhead').",
    )


def _setup(cause: Cause, step_us: float) -> tuple[str, str]:
    seen = cause.evidence
    where = f" ({cause.place})" if cause.place.file else ""
    title = (
        f"First-call set-up: {_time(seen['setup_us'])} go to first calls, most of it to {seen['operator'][:60]}{where}"
    )
    return title, "Warm up before recording: libraries and kernels are loaded once, when they are first needed."


_WORDS: dict[str, Callable[[Cause, float], tuple[str, str]]] = {
    "wait": _wait,
    "copy": _copy,
    "loader": _loader,
    "host": _host,
    "fusion": _fusion,
    "launch": _launch,
    "setup": _setup,
}


def _missing(analysis: Analysis) -> dict[str, Any]:
    """A GPU that seems idle because its rows are not there: nothing is claimed of it."""
    view, missing = analysis.view, analysis.view.missing_work
    why = "the file breaks off before them"
    if not missing.cut:
        why = f"of {missing.launches} launches, {missing.missing} have none"
    title = f"The GPU's rows are missing: {why}, so that nothing is known of its time or of what a step could gain"
    do = "Open the whole file, or record the program again."
    return _document("missing", title, do, UNKNOWN_PLACE, view.steps.duration_ns / view.steps.count / 1e3, 0.0, {})


def _step_ns(analysis: Analysis) -> float:
    """As it runs, not as it is watched; without a call that started anything there is nothing to replay."""
    view = analysis.view
    if len(view.gpu_rows) and not (view.gpu_calls >= 0).any():
        return view.steps.span_ns / view.steps.count
    return analysis.replay.step_ns


def _work(analysis: Analysis, title: str, do: str = "", place: Place = UNKNOWN_PLACE) -> dict[str, Any]:
    """Nothing to gain by the program's shape: its time is its work."""
    return _document("busy", title, do, place, _step_ns(analysis) / 1e3, 0.0, {})


def _busy(analysis: Analysis) -> dict[str, Any]:
    view, busy, replay = analysis.view, analysis.idle.busy_ns, analysis.replay
    share = min(sum(busy.values()) / max(len(busy), 1) / view.steps.count / max(_step_ns(analysis), 1), 1.0)
    counted = view.gpu_counted
    spent = view.sum_by_name(view.trace.name[view.gpu_rows[counted]], view.gpu_ns[counted])
    most = int(spent.argmax())
    part, name = spent[most] / max(int(spent.sum()), 1), view.trace.names[most]
    state = "GPU-bound: the GPU is" if share >= _BUSY else "No single cause stands out: the GPU is"
    if is_launch_bound(replay, Change(), replay.least_overhead):
        state = "Perhaps launch-bound, which the profiler hides by slowing the CPU: the GPU is"
    return _work(analysis, f"{state} busy {share:.0%} of a step; {part:.0%} of its time is {name[:60]}")


def _cpu_only(analysis: Analysis, cpu: CpuTime) -> dict[str, Any]:
    if not cpu.most_ns and len(analysis.view.ranges):
        return _work(analysis, "Only the program's own ranges were timed: no operators or kernels were recorded")
    if not cpu.most_ns:
        return _work(analysis, "Nothing ran that the trace could time")
    begin = f"CPU only: {_part(cpu.most_ns, cpu.whole_ns)} of its time is"
    together = f"operators have {_part(cpu.operators_ns, cpu.whole_ns)}"
    if cpu.most_ns == cpu.compiling_ns:
        title = f"{begin} compiling{_for(cpu.compiling_place)}; {together}"
        return _work(
            analysis, title, "Record more steps, or warm up first: code is compiled once.", cpu.compiling_place
        )
    if cpu.place_ns > cpu.operator_ns:
        return _work(analysis, f"{begin} Python's in {cpu.place}; {together}", place=cpu.place)
    title = f"{begin} {cpu.operator[:60]}{_for(cpu.operator_place)}; all {together}"
    return _work(analysis, title, place=cpu.operator_place)


def _for(place: Place) -> str:
    return f", for {place}" if place.file else ""


def _part(of: int, whole: int) -> str:
    share = of / max(whole, 1)
    return "less than 1%" if 0 < share < 0.01 else f"{share:.0%}"


def _time(us: float) -> str:
    return f"{us:.0f} µs" if us < 1000 else f"{us / 1000:.2f} ms" if us < 1e6 else f"{us / 1e6:.2f} s"
