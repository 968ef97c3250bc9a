"""Tracebacks reduced to the frames of the user's own code."""

from __future__ import annotations

import re
import traceback
from pathlib import Path

from kernellab.base.errors import UserError

PACKAGE = Path(__file__).resolve().parent.parent
_LONGEST_LINE = 300  # characters; a message may contain a whole tensor
_MOST_LINES, _MOST_FRAMES = 12, 12


def first_line(error: BaseException) -> str:
    """The first line of an exception's message."""
    try:
        text = _message(error)
    except BaseException:  # an exception's own __str__ may fail
        text = "its message cannot be read"
    return _cut((text.strip().splitlines() or [type(error).__name__])[0])


def _message(error: BaseException) -> str:
    """The exception's message, without what Triton writes before the cause: the kernel's source, or a header of ptxas's
    log."""
    text = str(getattr(error, "error_message", None) or error)
    _, _, log = text.partition("`ptxas` stderr:\n")
    return re.sub(r"^ptxas \S+, ", "ptxas, ", log) or text  # without the path of a temporary file that is gone


def explain(error: BaseException) -> str:
    """`ValueError: message (file.py:12)`, with the line of the user's own code."""
    if isinstance(error, UserError):
        detail = error.detail.splitlines()
        return error.message + (f": {detail[0]}" if detail else "")
    cause = _cause(error)
    frames = _user_frames(error)
    place = _line_of_kernel(cause) or (f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else "")
    return f"{type(cause).__name__}: {first_line(cause)}{f' ({place})' if place else ''}"


def user_frames(error: BaseException) -> str:
    """The traceback without kernellab's, torch's and the interpreter's own frames."""
    frames = _user_frames(error)
    message = "".join(traceback.format_exception_only(_cause(error))).rstrip().splitlines()
    more = ["…"] if len(message) > _MOST_LINES else []
    return "".join(traceback.format_list(frames[-_MOST_FRAMES:])) + "\n".join(
        [*map(_cut, message[:_MOST_LINES]), *more]
    )


def _user_frames(error: BaseException) -> list[traceback.FrameSummary]:
    """The frames of the user's own code, those of a kernel last."""
    cause = _cause(error)
    errors = [error] if cause is error else [error, cause]
    frames = (frame for e in errors for frame in traceback.extract_tb(e.__traceback__))
    return [frame for frame in frames if is_user_code(frame.filename)]


def _cause(error: BaseException) -> BaseException:
    """The error inside those that Triton wraps around it, at the launch and at every call of another kernel function.

    The wrappers are recognised by name: triton is not imported here.
    """
    while error.__cause__ is not None and (
        type(error).__name__ == "InterpreterError"
        or (type(error).__name__ == "CompilationError" and not getattr(error, "error_message", None))
    ):
        error = error.__cause__
    return error


def _line_of_kernel(error: BaseException) -> str | None:
    """`line 7 of add_kernel: x = tl.load(p)`, for an error of Triton's compiler, which knows the kernel's text only."""
    source, line = getattr(error, "src", None), getattr(getattr(error, "node", None), "lineno", None)
    if not isinstance(source, str) or not isinstance(line, int) or not 0 < line <= len(source.splitlines()):
        return None
    name = re.search(r"^\s*def (\w+)", source, re.MULTILINE)
    return f"line {line} of {name.group(1) if name else 'the kernel'}: {_cut(source.splitlines()[line - 1].strip())}"


def _cut(line: str) -> str:
    return line if len(line) <= _LONGEST_LINE else line[:_LONGEST_LINE] + " …"


def is_user_code(filename: str) -> bool:
    """Whether a file is the user's own. Every op's code counts, shipped ops included; the rest of kernellab and
    installed packages do not."""
    path = Path(filename)
    if PACKAGE in path.parents:
        return path.relative_to(PACKAGE).parts[0] == "ops"
    return not filename.startswith("<") and "site-packages" not in path.parts and "lib" not in path.parts[:4]
