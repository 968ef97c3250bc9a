"""Explanations in the terminal: the answer for each implementation first, then its evidence; then what to choose."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from kernellab.explaining.advice import AUTOMATION, Choice
from kernellab.explaining.explanation import Explanation
from kernellab.explaining.run_explanation import ChoiceTable, RunExplanation
from kernellab.findings.finding import Confidence, Evidence, Finding
from kernellab.gpumodel.kernel import Kernel
from kernellab.gpumodel.roofline import Roofline
from kernellab.record.derived import DerivedRecord
from kernellab.reporting.terminal import inspection
from kernellab.reporting.text import numbers as words
from kernellab.reporting.text.table import Column, Row, Table, print_table

# Resources of the time model.
_RESOURCES = {
    "memory": "the bytes it must move",
    "flight": "the latency of its loads",
    "issue": "its instructions",
    "special": "its special functions",
    "fp64": "its fp64 arithmetic",
    "fp32": "its fp32 arithmetic",
    "matmul": "its matmul",
    "local": "its local memory",
}
_CONFIDENCE: dict[Confidence, str] = {
    "measured": "measured",
    "computed": "counted, not timed",
    "likely": "by a model of the machine",
    "possible": "nothing else explains it",
}


def show(run: RunExplanation, record: DerivedRecord, out: Console, *, verbose: bool = False) -> None:
    groups: dict[tuple[str, str, bool], list[Explanation]] = {}
    for explanation in run.explanations:
        subject = explanation.subject
        groups.setdefault((subject.op, words.case_label(subject.case), subject.measured), []).append(explanation)
    for (op, case, _), group in groups.items():
        _show_heading(op, case, group[0], record, out)
        for explanation in sorted(group, key=lambda explanation: explanation.subject.time_us or 0.0):
            _show_explanation(explanation, out, verbose=verbose)
        out.print()
    inspection.show_failures([inspection.FailedImpl(u.impl, u.arch, u.status, u.reason) for u in run.unexplained], out)
    if run.unexplained:
        out.print()
    for table in run.choices:
        _show_choices(table, out)
    if verbose:
        _show_automation(out)


def _show_heading(op: str, case: str, first: Explanation, record: DerivedRecord, out: Console) -> None:
    subject = first.subject
    bandwidth = f"{words.digits(subject.gbps)} GB/s" if subject.gbps else ""
    if subject.measured:
        where = record["machine"].get("device", subject.case["device"])
        basis = f"{where}; copies {bandwidth}" if bandwidth else where
    else:
        name = subject.device.name if subject.device else ""
        basis = f"not timed: a model of {name} ({bandwidth})"
    out.print(Text.assemble((op, "bold"), f" · {case} · {basis}"))


def _show_explanation(explanation: Explanation, out: Console, *, verbose: bool) -> None:
    subject = explanation.subject
    heading = Text.assemble((f" {subject.op} {subject.impl}: ", "bold"), headline(explanation))
    out.print(heading, soft_wrap=not out.is_terminal)
    for index, finding in enumerate(explanation.findings):
        _show_finding(finding, out, verbose=verbose, with_title=index > 0)
    for line in fact_lines(explanation):
        out.print(Text(f"   {line}", style="dim"), soft_wrap=not out.is_terminal)


def headline(explanation: Explanation) -> str:
    """The answer: the first finding, or without one the distance from the limit."""
    subject, prediction = explanation.subject, explanation.prediction
    if explanation.findings:
        return _title_with_gain(explanation.findings[0])
    if subject.limit and subject.limit.fraction:
        return (
            f"{words.percent(subject.limit.fraction)} of measured {_ceiling(subject.limit)}; no rule explains the rest"
        )
    if subject.measured:
        return "no problem found, and its limit is not known"
    if prediction is None and subject.kernels:
        return "no prediction: the bytes that the op must move are not known"
    if prediction is None:
        return "no problem found in its operators"
    loops = prediction.loops_counted_once
    caveat = f"; {words.count(loops, 'loop')} of unknown length counted once" if loops else ""
    time = f"predicted {words.duration(prediction.time_us)}, bound by {_RESOURCES[prediction.estimate.bottleneck]}"
    return f"no problem found in its code: {time}{caveat}"


def _title_with_gain(finding: Finding) -> str:
    if not finding.gain or "gains about" in finding.title:
        return finding.title
    return f"{finding.title}; fixing it gains about {finding.gain:.3g}×"


def _ceiling(limit: Roofline) -> str:
    return "bandwidth" if limit.bound == "memory" else "matmul rate"


def _show_finding(finding: Finding, out: Console, *, verbose: bool, with_title: bool) -> None:
    wrap = not out.is_terminal
    if with_title:
        out.print(Text(f"   also: {_title_with_gain(finding)}"), soft_wrap=wrap)
    action = f"{finding.do[0].upper()}{finding.do[1:]} ({_CONFIDENCE[finding.confidence]})."
    out.print(Text(f"   {action}"), soft_wrap=wrap)
    for evidence in finding.evidence if verbose else ():
        line = f"     {evidence.what}: {_value(evidence)} ({evidence.source})"
        out.print(Text(line, style="dim"), soft_wrap=wrap)


def _value(evidence: Evidence) -> str:
    value, unit = evidence.value, evidence.unit
    if not isinstance(value, int | float):
        return str(value)
    if unit == "bytes" and value >= 1e6:
        return f"{value / 1e6:.4g} MB"
    if unit == "µs":
        return words.duration(value)
    return f"{words.digits(value)} {unit}".strip()


def fact_lines(explanation: Explanation) -> list[str]:
    """Its roofline, what its operators ran as, and its own kernels."""
    subject, lines = explanation.subject, []
    if subject.limit and subject.limit.roof_us is not None:
        lines.append(_roofline_line(subject.limit, subject.limit.roof_us, subject.time_us))
    if explanation.families:
        parts = [f"{count} × {family.name} ({family.description})" for family, count in explanation.families]
        lines.append(f"ran as: {', '.join(parts)}")
    return lines + [_kernel_line(kernel, subject.measured) for kernel in subject.kernels]


def _roofline_line(limit: Roofline, roof_us: float, time_us: float | None) -> str:
    bound = "memory" if limit.bound == "memory" else "arithmetic"
    line = f"roofline: {limit.bytes / 1e6:.4g} MB, bound by {bound}, {words.duration(roof_us)} at least"
    if limit.intensity is not None:
        line += f"; {words.digits(limit.intensity)} operations per byte, the ridge is at {limit.ridge:.3g}"
    return f"{line}; took {words.duration(time_us)}" if time_us else line


def _kernel_line(kernel: Kernel, measured: bool) -> str:
    times = f", {kernel.times} times" if kernel.times > 1 else ""
    fits = f", {words.percent(kernel.occupancy)} occupancy" if kernel.occupancy else ""
    blocks = f"{words.count(kernel.blocks, 'block')} of {words.count(kernel.threads, 'thread')}"
    registers = words.count(kernel.registers or 0, "register")
    return f"{kernel.name}: {blocks}{times}, {registers}{fits}{_configuration(kernel, measured)}"


def _configuration(kernel: Kernel, measured: bool) -> str:
    """Of an autotuned kernel: the other configurations are not explained."""
    if not kernel.tuned:
        return ""
    index, number = kernel.tuned
    reason = "" if measured else ", the fastest by the model"
    chosen = inspection.describe_configuration(kernel.tuned, kernel.config)
    return f"; configuration {index + 1} of {number}{reason}: {chosen}"


# What to choose ----------------------------------------------------------------------------------------


def _show_choices(choices: ChoiceTable, out: Console) -> None:
    out.print(Text(f"Which implementation · {choices.op} · {words.case_label(choices.case)}", style="bold"))
    columns = [
        Column("impl", "left", cut_to=12),
        Column("lines", drop=1),
        Column("build", drop=2),
        Column("time"),
        Column("of the limit"),
        Column("when to choose it", "left", wrap_to=20),
    ]
    print_table(Table(columns, [Row(_cells(choice)) for choice in choices.rows]), out)
    out.print(Text(f" {choices.advice}"), soft_wrap=not out.is_terminal)
    out.print()


def _cells(row: Choice) -> list[str]:
    lines = "" if row.launcher_lines is None else str(row.launcher_lines)
    if row.kernel_lines:
        lines = f"{row.kernel_lines} + {lines or '?'}"
    build = f"{row.build_s:.1f} s" if row.build_s is not None and row.build_s >= 0.05 else ""
    time = words.duration(row.time_us) if row.time_us else "not timed here"
    share = words.percent(row.fraction) if row.fraction else ""
    return [row.impl, lines, build, time, share, row.choose]


def _show_automation(out: Console) -> None:
    columns = [Column(title, "left") for title in ("task", "CUDA C++", "Triton")]
    print_table(Table(columns, [Row(row) for row in AUTOMATION]), out)
