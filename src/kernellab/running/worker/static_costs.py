"""What a way costs that its machine code does not tell: bytes its operators move, the op's fewest, lines of source.

Worked out on meta tensors, in a worker, while launches are being captured: nothing is computed and no GPU needed.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kernellab.activity.traffic import traffic
from kernellab.capture.line_count import functions_called, lines_of_functions
from kernellab.codeanalysis.kernel_json import KernelJson
from kernellab.declaration.case import Case
from kernellab.declaration.inputs import call
from kernellab.declaration.op import Compiled, Cost, Impl, Op

Account = dict[str, Any]


def account(impl: Impl, kernels: Sequence[KernelJson], run: Callable[[], object]) -> Account:
    """The bytes that operators move, and the lines of the functions `run` calls and of the kernels; None if unknown.

    Compiled code is not run: a dispatch mode would disable torch.compile, and the author wrote only the reference.
    """
    if isinstance(impl.fn, Compiled):
        return {
            "traffic": None,
            "launcher_lines": lines_of_functions([impl.fn.source.__code__]),
            "kernel_lines": 0,
        }
    found: Account = {"traffic": None, "launcher_lines": None, "kernel_lines": _kernel_lines(kernels)}
    with contextlib.suppress(Exception):  # inspecting has reported the error already
        found["traffic"] = traffic(run)
        with functions_called() as codes:
            run()
        found["launcher_lines"] = lines_of_functions(codes)
    return found


def cost_of(op: Op, case: Case, inputs: Mapping[str, Any]) -> Any:
    """The op's fewest bytes and its operations, from the sizes of meta tensors; None where cost= wants more."""
    with contextlib.suppress(Exception):
        if op.cost is not None:
            declared = call(op, op.cost, inputs, case)
            return declared.to_json() if isinstance(declared, Cost) else None
        results = call(op, op.reference, inputs, case)
        results = results if isinstance(results, (tuple, list)) else (results,)
        return {**Cost(read=list(inputs.values()), write=list(results)).to_json(), "assumed": True}
    return None


def _kernel_lines(kernels: Sequence[KernelJson]) -> int:
    """Lines of the sources of all kernels; a source that several kernels share counts once."""
    lines = {(s["file"], s["first_line"]): s.get("lines", 0) for kernel in kernels for s in kernel["sources"]}
    return sum(lines.values())
