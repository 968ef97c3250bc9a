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
    frames = [f for f in traceback.extract_tb(error.__traceback__) if is_user_code(f.filename)]
    place = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {first_line(error)}{place}"


def user_frames(error: BaseException) -> str:
    """The traceback without kernellab's, torch's and the interpreter's own frames."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if is_user_code(f.filename)]
    message = "".join(traceback.format_exception_only(error)).rstrip().splitlines()
    more = ["…"] if len(message) > _MOST_LINES else []
    return "".join(traceback.format_list(frames[-_MOST_FRAMES:])) + "\n".join(
        [*map(_cut, message[:_MOST_LINES]), *more]
    )


def _cut(line: str) -> str:
    return line if len(line) <= _LONGEST_LINE else line[:_LONGEST_LINE] + " …"


def is_user_code(filename: str) -> bool:
    """Whether a file is the user's own. Every op's code counts, shipped ops included; the rest of kernellab and
    installed packages do not."""
    path = Path(filename)
    if PACKAGE in path.parents:
        return path.relative_to(PACKAGE).parts[0] == "ops"
    return not filename.startswith("<") and "site-packages" not in path.parts and "lib" not in path.parts[:4]
