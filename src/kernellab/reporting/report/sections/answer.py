"""The answer in words: which implementation is fastest, what is right, and what is not."""

from __future__ import annotations

from kernellab.reporting.report.parts.section import Run, Section
from kernellab.reporting.terminal import battery, results, sanitizer


def section(run: Run) -> Section | None:
    record = run.record
    lines = results.closing(record) + battery.closing(record["batteries"]) + sanitizer.closing(record["sanitized"])
    return Section("answer", "Answer", "answer.html", {"lines": lines})
