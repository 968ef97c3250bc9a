"""Whose fault an error is that an implementation raises on a machine without a GPU: its own, or that there is no GPU.

What Triton's interpreter or a pretended GPU cannot do says nothing about a kernel. Imports neither torch nor triton.
"""

from __future__ import annotations

import re
import traceback
from pathlib import Path

from kernellab.base.user_code import explain, first_line

# Messages of torch and Triton where a GPU or its driver is missing.
_NO_GPU = re.compile(
    r"not compiled with CUDA|no CUDA GPUs are available|found no NVIDIA driver|active drivers|without ATen_cuda"
    r"|CUDA driver version is insufficient|from the .CPU. backend|no CUDA-capable device|torch_cuda"
    r"|lib(cuda|cublas|cudnn|nvrtc)\w*\.so",
    re.IGNORECASE,
)
# Triton's own modules that check a kernel while it is compiled, and do the same in the interpreter.
_COMPILER_CHECKS = ("triton", "language")
_REFUSALS = (TypeError, ValueError, AssertionError, KeyError)


class CannotInterpret(Exception):
    """The interpreter cannot do what a kernel asks for; the message says what."""


class StaticAssertFailed(AssertionError):
    """`tl.static_assert` in a kernel: the author refuses these arguments."""


def is_static_assert(error: BaseException) -> bool:
    """Whether Triton's interpreter raised it for a `tl.static_assert`."""
    return isinstance(error.__cause__, StaticAssertFailed)


def missing_gpu(error: BaseException) -> str | None:
    """Why an error does not count against an implementation; None where it does.

    In a kernel, an author's own assertions, undefined names and what Triton's compiler would refuse too count against
    it. Anything else is what the interpreter cannot do. Outside of kernels only the lack of a GPU is excused.
    """
    if type(error).__name__ == "InterpreterError" or isinstance(error, CannotInterpret):
        return _interpreter_limit(error)
    if isinstance(error, (RuntimeError, AssertionError, ImportError, OSError)) and _NO_GPU.search(first_line(error)):
        return f"needs a GPU: {explain(error)}"
    return None


def _interpreter_limit(error: BaseException) -> str | None:
    cause = error
    while type(cause).__name__ == "InterpreterError" and cause.__cause__ is not None:
        cause = cause.__cause__
    if isinstance(cause, (StaticAssertFailed, NameError)) or _compiler_refuses(cause):
        return None
    what = str(cause) if isinstance(cause, CannotInterpret) else explain(cause)
    return f"Triton's interpreter cannot run it: {what}"


def _compiler_refuses(cause: BaseException) -> bool:
    """Whether Triton's language refused, which is the same code when a kernel is compiled.

    Constants are ordinary numbers in the interpreter, so that a refusal over them is not the compiler's.
    """
    frames = traceback.extract_tb(cause.__traceback__)
    if not frames or not isinstance(cause, _REFUSALS):
        return False
    return Path(frames[-1].filename).parts[-3:-1] == _COMPILER_CHECKS and "constexpr" not in str(cause)
