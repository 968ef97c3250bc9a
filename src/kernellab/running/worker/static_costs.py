"""What machine code does not tell about an implementation: the bytes its operators move, and its lines of source.

Counted on meta tensors while launches are being captured: nothing is computed, and no GPU is needed.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import TypedDict

from kernellab.activity.documents import OperatorTraffic
from kernellab.activity.traffic import traffic
from kernellab.capture.line_count import functions_called, lines_of_functions
from kernellab.codeanalysis.kernel_json import KernelJson
from kernellab.declaration.compiled import Compiled
from kernellab.declaration.op import Impl


class StaticCosts(TypedDict):
    """None where it could not be counted."""

    traffic: list[OperatorTraffic] | None
    launcher_lines: int | None
    kernel_lines: int | None


def count_static_costs(impl: Impl, kernels: Sequence[KernelJson], run: Callable[[], object]) -> StaticCosts:
    """The bytes that operators move, and the lines of the functions that `run` calls and of the kernels.

    Compiled code is not run: a dispatch mode would disable torch.compile, and the author wrote only the reference.
    """
    if isinstance(impl.fn, Compiled):
        return {"traffic": None, "launcher_lines": lines_of_functions([impl.fn.source.__code__]), "kernel_lines": 0}
    costs: StaticCosts = {"traffic": None, "launcher_lines": None, "kernel_lines": _kernel_lines(kernels)}
    with contextlib.suppress(Exception):  # inspecting has reported the error already
        costs["traffic"] = traffic(run)
        with functions_called() as codes:
            run()
        costs["launcher_lines"] = lines_of_functions(codes)
    return costs


def _kernel_lines(kernels: Sequence[KernelJson]) -> int:
    """Lines of the sources of all kernels; a source that several kernels share counts once."""
    lines = {(s["file"], s["first_line"]): s.get("lines", 0) for kernel in kernels for s in kernel["sources"]}
    return sum(lines.values())
