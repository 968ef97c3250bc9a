"""Why an implementation is as fast as it is: the answer, what to do, the evidence and the facts, in sentences."""

from __future__ import annotations

from kernellab.explaining.advice import Choice
from kernellab.explaining.explanation import Explanation
from kernellab.explaining.run_explanation import ChoiceTable
from kernellab.findings.finding import Confidence, Evidence, Finding
from kernellab.gpumodel.kernel import Kernel
from kernellab.gpumodel.roofline import Roofline
from kernellab.reporting.sentences.configuration import describe_configuration
from kernellab.reporting.text import numbers as words
from kernellab.reporting.text.table import Column, Row, Table

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


def headline(explanation: Explanation) -> str:
    """The answer: the first finding, or without one the distance from the limit."""
    subject, prediction = explanation.subject, explanation.prediction
    if explanation.findings:
        return title_with_gain(explanation.findings[0])
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


def title_with_gain(finding: Finding) -> str:
    if not finding.gain or "gains about" in finding.title:
        return finding.title
    return f"{finding.title}; fixing it gains about {finding.gain:.3g}×"


def _ceiling(limit: Roofline) -> str:
    return "bandwidth" if limit.bound == "memory" else "matmul rate"


def action(finding: Finding) -> str:
    """What to do about a finding, and how certain it is."""
    return f"{finding.do[0].upper()}{finding.do[1:]} ({_CONFIDENCE[finding.confidence]})."


def evidence_line(evidence: Evidence) -> str:
    return f"{evidence.what}: {_value(evidence)} ({evidence.source})"


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
    if limit.clock_mhz and limit.matmul_tflops:
        line += f"; products run at {words.digits(limit.matmul_tflops)} TFLOP/s at {limit.clock_mhz:.0f} MHz"
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
    chosen = describe_configuration(kernel.tuned, kernel.config)
    return f"; configuration {index + 1} of {number}{reason}: {chosen}"


# What to choose ----------------------------------------------------------------------------------------


def choice_table(choices: ChoiceTable) -> Table:
    """The implementations of one op and case to choose from."""
    columns = [
        Column("impl", "left", cut_to=12),
        Column("lines", drop=1),
        Column("build", drop=2),
        Column("time"),
        Column("of the limit"),
        Column("when to choose it", "left", wrap_to=20),
    ]
    return Table(columns, [Row(_cells(choice)) for choice in choices.rows])


def _cells(row: Choice) -> list[str]:
    lines = "" if row.launcher_lines is None else str(row.launcher_lines)
    if row.kernel_lines:
        lines = f"{row.kernel_lines} + {lines or '?'}"
    build = f"{row.build_s:.1f} s" if row.build_s is not None and row.build_s >= 0.05 else ""
    time = words.duration(row.time_us) if row.time_us else "not timed here"
    share = words.percent(row.fraction) if row.fraction else ""
    return [row.impl, lines, build, time, share, row.choose]
