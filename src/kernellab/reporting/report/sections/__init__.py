"""The sections of a report, one module each, in the order they appear.

In: a run. Out: a `Section`, or None where the run has nothing to show. A new section is a module here, a template, and
one entry of `SECTIONS`.
"""

from collections.abc import Sequence

from kernellab.reporting.report.parts.section import MakeSection
from kernellab.reporting.report.sections import (
    answer,
    code,
    correctness,
    curves,
    environment,
    findings,
    kernels,
    panel,
    recordings,
    roofline,
    samples,
    verdicts,
    waves,
)

SECTIONS: Sequence[MakeSection] = (
    answer.section,
    verdicts.section,
    curves.section,
    roofline.section,
    samples.section,
    panel.section,
    correctness.section,
    findings.section,
    kernels.section,
    code.section,
    waves.section,
    recordings.section,
    environment.section,
)
