"""The answer in words, for each op: which implementation is fastest, what is right, and what is not."""

from __future__ import annotations

from kernellab.record.statuses import OK
from kernellab.reporting.report.parts.section import Run, Section
from kernellab.reporting.report.parts.table import status_tone
from kernellab.reporting.sentences.answer import answers, examined


def section(run: Run) -> Section | None:
    # Only what is not right has a tone: it must not be overlooked.
    toned = [(answer, status_tone(answer.worst) if answer.worst != OK.name else "") for answer in answers(run.record)]
    values = {"answers": toned, "lines": examined(run.record)}
    return Section("answer", "Answer", "answer.html", values) if any(values.values()) else None
