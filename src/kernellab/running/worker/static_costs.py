"""What machine code does not tell about an implementation: bytes its operators move, lines of source.

Worked out on meta tensors, in a worker, while launches are being captured: nothing is computed and no GPU needed.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kernellab.activity.traffic import traffic
from kernellab.capture.line_count import functions_called, lines_of_functions
from kernellab.declaration.compiled import Compiled
from kernellab.declaration.op import Impl

Account = dict[str, Any]


def account(impl: Impl, kernels: Sequence[Mapping[str, Any]], run: Callable[[], Any]) -> Account:
    """`traffic`, and lines: of the functions `run` goes through, and of the kernels; what cannot be had is None.

    Compiled code is not run: a dispatch mode would turn compiling off, and its author wrote the reference alone.
    """
    if isinstance(impl.fn, Compiled):
        return {
            "traffic": None,
            "launcher_lines": lines_of_functions([impl.fn.source.__code__]),
            "kernel_lines": 0,
        }
    found: Account = {"traffic": None, "launcher_lines": None, "kernel_lines": _kernel_lines(kernels)}
    with contextlib.suppress(Exception):  # a way that looks at values has been told of already
        found["traffic"] = traffic(run)
        with functions_called() as codes:
            run()
        found["launcher_lines"] = lines_of_functions(codes)
    return found


def _kernel_lines(kernels: Sequence[Mapping[str, Any]]) -> int:
    """Of the sources of all kernels, each counted once."""
    sources = {(s["file"], s["first_line"]): s.get("lines", 0) for k in kernels for s in k["sources"]}
    return sum(sources.values())
