"""The answer in words, for each op: which implementation is fastest, what is right, and what is not."""

from __future__ import annotations

from kernellab.reporting.report.parts.section import Run, Section
from kernellab.reporting.sentences.answer import answers, examined


def section(run: Run) -> Section | None:
    values = {"answers": answers(run.record), "lines": examined(run.record)}
    return Section("answer", "Answer", "answer.html", values) if any(values.values()) else None
