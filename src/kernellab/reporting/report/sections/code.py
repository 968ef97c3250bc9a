"""Source, PTX and SASS of each kernel side by side; hovering a line lights those that belong to it."""

from __future__ import annotations

from kernellab.reporting.html.parts import label
from kernellab.reporting.report.parts.kernel_code import KernelCode, read_kernels
from kernellab.reporting.report.parts.section import Run, Section

_MOST_CASES = 6  # named of a kernel
_NAME_CHARACTERS = 60


def section(run: Run) -> Section | None:
    shown, more = read_kernels(run)
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
        "more": more,
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


def _cases(kernel: KernelCode) -> str:
    named = "; ".join(kernel.cases[:_MOST_CASES])
    more = len(kernel.cases) - _MOST_CASES
    return f"{named}; and {more} more" if more > 0 else named
