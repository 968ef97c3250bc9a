"""Turns the causes in a trace into findings: each in words, with what to do, ranked by gain."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kernellab.analysis.causes import Analysis, Cause, is_launch_bound
from kernellab.analysis.cpu_time import CpuTime
from kernellab.analysis.replay import Change
from kernellab.base.json import JsonValue
from kernellab.findings.finding import Confidence, Evidence, Finding, Precedence, StepTimes
from kernellab.findings.place import UNKNOWN_PLACE, Place
from kernellab.findings.ranking import rank

_MIN_SHARE = 0.02  # of a step: a smaller gain is not reported
_BUSY = 0.9
_PLAUSIBLE_IDLE = 1.5  # times the gain: a longer idle time is caused by the profiler


def find(analysis: Analysis, causes: Sequence[Cause], cpu: CpuTime | None) -> list[Finding]:
    """Findings ranked by gain. `cpu` is the CPU time of a trace without a GPU.

    Without a GPU, the largest part of the time comes first: work, or a line that could be changed.
    """
    if analysis.view.missing_work.substantial:
        return [_missing_rows(analysis)]
    findings = _from_causes(analysis, [cause for cause in causes if cause.share >= _MIN_SHARE])
    if cpu is None:
        return rank(findings) or [_busy_gpu(analysis)]
    ranked = rank(findings)
    largest = ranked[0].step if ranked else None
    if largest is None or cpu.most_ns > largest.gain_share * cpu.whole_ns:
        return rank([_cpu_work(analysis, cpu), *findings])
    return ranked


def _from_causes(analysis: Analysis, causes: Sequence[Cause]) -> list[Finding]:
    findings: dict[int, Finding] = {}
    for cause in sorted(causes, key=lambda cause: len(cause.after)):
        after = [findings[id(earlier)] for earlier in cause.after if id(earlier) in findings]
        findings[id(cause)] = _from_cause(analysis, cause, after)
    return [findings[id(cause)] for cause in causes]


def _from_cause(analysis: Analysis, cause: Cause, after: Sequence[Finding]) -> Finding:
    step_us, gain_us = cause.step_ns / 1e3, cause.gain_ns / 1e3
    title, do = _DESCRIPTIONS[cause.kind](cause, step_us)
    for other in cause.same_line:
        title += f"; the same line's {other.place.call}() {_describe_briefly(other)}"
        do += f" And: {_DESCRIPTIONS[other.kind](other, step_us)[1]}"
    # A gain may be relative to a step that other fixes have shortened: ranking compares with today's step.
    today_us = analysis.replay.step_ns / 1e3
    return Finding(
        title=title,
        do=do,
        confidence=_confidence(cause),
        gain=today_us / max(today_us - gain_us, 1e-3) if today_us else None,
        evidence=_evidence(cause),
        name=cause.kind,
        place=cause.place,
        step=StepTimes(step_us, gain_us),
        after=after,
    )


def _evidence(cause: Cause) -> list[Evidence]:
    values: dict[str, object] = {**cause.evidence, "stepping": cause.has_steps}
    return [Evidence(name, _json_value(value)) for name, value in values.items()]


def _json_value(value: object) -> JsonValue:
    if isinstance(value, list):
        return [_json_value(item) for item in value]
    if isinstance(value, str | int | float):
        return value
    raise TypeError(f"evidence is text, numbers and lists of them, not {type(value).__name__}")


def _confidence(cause: Cause) -> Confidence:
    """A replay is a model. The profiler alone may make a program launch-bound."""
    return "possible" if cause.kind == "launch" and not cause.evidence["sure"] else "likely"


# Causes in words ---------------------------------------------------------------------------------------


def _describe_briefly(cause: Cause) -> str:
    """A further cause of the same line, in a few words."""
    if cause.kind == "copy":
        return f"{_copies(cause)}, {_time(cause.evidence['wait_us'])}{_per_step(cause)}"
    if cause.kind == "wait":
        return "waits for the GPU"
    return f"takes {_time(cause.evidence['cpu_us'])}{_per_step(cause)}"


def _per_step(cause: Cause) -> str:
    return " a step" if cause.has_steps else ""


def _kernels(count: float) -> str:
    return f"{count:.0f} kernel" + ("" if round(count) == 1 else "s")


def _frequency(cause: Cause) -> str:
    times, per_step = cause.evidence["count"], cause.evidence["per_step"]
    if not cause.has_steps:
        return "once" if times == 1 else f"{times} times"
    if 0.85 < per_step < 1.05:  # the first and the last may be outside the steps
        return "in every step"
    return f"{per_step:.0f} times a step" if per_step > 1 else f"in one step of {max(1 / per_step, 2):.0f}"


def _wait(cause: Cause, step_us: float) -> tuple[str, str]:
    idle_us = cause.evidence["idle_us"]
    title = f"{cause.place} makes the CPU wait for the GPU {_frequency(cause)}"
    # The profiler slows the CPU: while it records, the GPU may idle for longer than it does otherwise.
    if 0.01 * step_us <= idle_us <= _PLAUSIBLE_IDLE * cause.gain_ns / 1e3:
        title += f", and the GPU then idles {_time(idle_us)}"
    return title, "Do it less often, every hundredth step, or keep the value on the GPU and read it later."


def _copy(cause: Cause, step_us: float) -> tuple[str, str]:
    wait = _time(cause.evidence["wait_us"])
    title = f"{cause.place} {_copies(cause)} {_frequency(cause)}, and the CPU waits for it {wait}"
    if cause.evidence["to_gpu"]:
        return (
            title,
            "Keep it on the GPU, or pin it and copy the next step's early: non_blocking=True, on a stream of its own.",
        )
    return title, "Leave it on the GPU, or copy to pinned memory with non_blocking=True and read it a step later."


def _copies(cause: Cause) -> str:
    return f"copies {'to' if cause.evidence['to_gpu'] else 'from'} the GPU"


def _loader(cause: Cause, step_us: float) -> tuple[str, str]:
    effect = "starves the GPU" if cause.evidence["on_gpu"] else "delays the program"
    title = f"The data loader {effect}: {cause.place} takes {_time(cause.evidence['cpu_us'])}{_per_step(cause)}"
    if cause.evidence["workers"]:
        return title, (
            "Its workers are too slow: have each prepare less, add workers where there are cores, and keep them from "
            "epoch to epoch (persistent_workers)."
        )
    return title, "Give the DataLoader workers (num_workers, prefetch_factor, persistent_workers), or prepare less."


def _host(cause: Cause, step_us: float) -> tuple[str, str]:
    time = f"{_time(cause.evidence['cpu_us'])}{_per_step(cause)}"
    title = f"{cause.place} takes {time} of CPU time without launching GPU work"
    return title, "Move it out of the loop, into another thread or process, or do it less often."


def _fusion(cause: Cause, step_us: float) -> tuple[str, str]:
    evidence = cause.evidence
    names = " → ".join(name.removeprefix("aten::")[:40] for name in evidence["operators"][:8])
    where = f"{cause.place}: " if cause.place.file else ""
    times = evidence["moved_bytes"] / max(evidence["fewest_bytes"], 1)
    title = (
        f"{where}{evidence['kernels']:.0f} kernels{_per_step(cause)} could be {evidence['fused']:.0f} ({names});"
        f" they move {times:.1f} times the bytes needed"
    )
    return title, "Use PyTorch's own operator for it, torch.compile, or one kernel of your own."


def _launch(cause: Cause, step_us: float) -> tuple[str, str]:
    evidence = cause.evidence
    shapes = " × ".join(str(tuple(shape)) for shape in evidence["shapes"][:3])
    where = f" (on {shapes})" if shapes else ""
    if cause.place.file:
        where = f" ({cause.place}{', on ' + shapes if shapes else ''})"
    bound = "Launch-bound" if evidence["sure"] else "Launch-bound, unless it is the profiler that slows the CPU"
    title = (
        f"{bound}: the CPU takes {_time(evidence['cpu_us'])} to launch {_time(evidence['gpu_us'])} of GPU work,"
        f" {_kernels(evidence['kernels'])}{_per_step(cause)}{where}"
    )
    return (
        title,
        "Use larger batches, or launch a whole step at once: CUDA graphs, torch.compile(mode='reduce-overhead').",
    )


def _setup(cause: Cause, step_us: float) -> tuple[str, str]:
    evidence = cause.evidence
    where, operator = f" ({cause.place})" if cause.place.file else "", evidence["operator"][:60]
    title = f"First-call set-up: first calls take {_time(evidence['setup_us'])}, most of it {operator}{where}"
    return title, "Warm up before recording: libraries and kernels are loaded once, when they are first needed."


_DESCRIPTIONS: dict[str, Callable[[Cause, float], tuple[str, str]]] = {
    "wait": _wait,
    "copy": _copy,
    "loader": _loader,
    "host": _host,
    "fusion": _fusion,
    "launch": _launch,
    "setup": _setup,
}


# Without a cause ---------------------------------------------------------------------------------------


def _missing_rows(analysis: Analysis) -> Finding:
    """The GPU seems idle because its rows are not in the file: no conclusion is possible."""
    view, missing = analysis.view, analysis.view.missing_work
    reason = "the file ends before them"
    if not missing.cut:
        reason = f"{missing.missing} of {missing.launches} launches have no row"
    return Finding(
        name="missing",
        title=f"The GPU's rows are missing: {reason}. The GPU's time and possible gains are unknown",
        do="Open the whole file, or record the program again.",
        confidence="measured",
        step=StepTimes(view.steps.duration_ns / view.steps.count / 1e3, 0.0),
    )


def _step_ns(analysis: Analysis) -> float:
    """The time of a step without the profiler's overhead; as measured if no launching call was recorded to replay."""
    view = analysis.view
    if len(view.gpu_rows) and not (view.gpu_calls >= 0).any():
        return view.steps.span_ns / view.steps.count
    return analysis.replay.step_ns


def _work(analysis: Analysis, title: str, do: str = "", place: Place = UNKNOWN_PLACE) -> Finding:
    """A finding without a gain: the program spends its time on work."""
    return Finding(
        name="busy",
        title=title,
        do=do,
        confidence="measured",
        precedence=Precedence.FIRST,
        place=place,
        step=StepTimes(_step_ns(analysis) / 1e3, 0.0),
    )


def _busy_gpu(analysis: Analysis) -> Finding:
    view, busy, replay = analysis.view, analysis.idle.busy_ns, analysis.replay
    busy_share = min(sum(busy.values()) / max(len(busy), 1) / view.steps.count / max(_step_ns(analysis), 1), 1.0)
    shown = view.gpu_counted
    time_by_name = view.sum_by_name(view.trace.name[view.gpu_rows[shown]], view.gpu_ns[shown])
    longest = int(time_by_name.argmax())
    part, name = time_by_name[longest] / max(int(time_by_name.sum()), 1), view.trace.names[longest]
    state = "GPU-bound: the GPU is" if busy_share >= _BUSY else "No single cause stands out: the GPU is"
    if is_launch_bound(replay, Change(), replay.least_overhead):
        state = "Perhaps launch-bound, which the profiler hides by slowing the CPU: the GPU is"
    return _work(analysis, f"{state} busy {busy_share:.0%} of a step; {part:.0%} of its time is {name[:60]}")


def _cpu_work(analysis: Analysis, cpu: CpuTime) -> Finding:
    if not cpu.most_ns and len(analysis.view.ranges):
        return _work(analysis, "Only the program's own ranges were timed: no operators or kernels were recorded")
    if not cpu.most_ns:
        return _work(analysis, "The trace contains no timed work")
    begin = f"CPU only: {_percent(cpu.most_ns, cpu.whole_ns)} of its time is"
    operators = f"operators take {_percent(cpu.operators_ns, cpu.whole_ns)}"
    if cpu.most_ns == cpu.compiling_ns:
        title = f"{begin} compiling{_for(cpu.compiling_place)}; {operators}"
        return _work(
            analysis, title, "Record more steps, or warm up first: code is compiled once.", cpu.compiling_place
        )
    if cpu.place_ns > cpu.operator_ns:
        return _work(analysis, f"{begin} Python code in {cpu.place}; {operators}", place=cpu.place)
    title = f"{begin} {cpu.operator[:60]}{_for(cpu.operator_place)}; all {operators}"
    return _work(analysis, title, place=cpu.operator_place)


def _for(place: Place) -> str:
    return f", for {place}" if place.file else ""


def _percent(part: int, whole: int) -> str:
    share = part / max(whole, 1)
    return "less than 1%" if 0 < share < 0.01 else f"{share:.0%}"


def _time(us: float) -> str:
    return f"{us:.0f} µs" if us < 1000 else f"{us / 1000:.2f} ms" if us < 1e6 else f"{us / 1e6:.2f} s"
