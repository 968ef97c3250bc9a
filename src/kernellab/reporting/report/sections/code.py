"""Source, PTX and SASS of each kernel side by side; hovering a line lights those that belong to it."""

from __future__ import annotations

import itertools

from kernellab.reporting.html.parts import label
from kernellab.reporting.report.parts.kernel_code import KernelCode, join_cases, read_kernels
from kernellab.reporting.report.parts.section import Run, Section

_MOST_CHARACTERS = 2_500_000  # of all texts, so that the report stays small
_MOST_KERNELS, _MOST_READ = 60, 200
_MOST_CASES = 6  # named of a kernel
_NAME_CHARACTERS = 60


def section(run: Run) -> Section | None:
    kernels = join_cases(itertools.islice(read_kernels(run), _MOST_READ))
    shown = _fitting(kernels)
    if not shown:
        return None
    many_ops = len({kernel.op for kernel in shown}) > 1
    values = {
        "kernels": [
            {
                "title": f"{label(kernel.op, _NAME_CHARACTERS)} · {kernel.title}" if many_ops else kernel.title,
                "cases": _cases(kernel),
                "facts": kernel.facts,
                "remarks": kernel.remarks,
                "cut": kernel.cut,
            }
            for kernel in shown
        ],
        "more": len(shown) < len(kernels),
    }
    return Section(
        "code",
        "Source, PTX and SASS",
        "code.html",
        values,
        data={f"{run.prefix}code-texts": [kernel.texts for kernel in shown]},
        styles=["code.css"],
        scripts=["code.js"],
    )


def _fitting(kernels: list[KernelCode]) -> list[KernelCode]:
    """As many kernels as fit, in order; at least one."""
    total = 0
    shown: list[KernelCode] = []
    for kernel in kernels[:_MOST_KERNELS]:
        total += kernel.characters
        if shown and total > _MOST_CHARACTERS:
            break
        shown.append(kernel)
    return shown


def _cases(kernel: KernelCode) -> str:
    named = "; ".join(kernel.cases[:_MOST_CASES])
    more = len(kernel.cases) - _MOST_CASES
    return f"{named}; and {more} more" if more > 0 else named
