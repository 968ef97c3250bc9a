"""Stack frames in the debugger: which belong to the kernel's author, and what an exception was wrapped in."""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType

from triton.runtime import interpreter

from kernellab.base.user_code import PACKAGE

LIBRARIES = sys.stdlib_module_names | {"triton", "torch", "numpy"}

Place = tuple[FrameType, int]  # a frame and a line


def is_hidden(frame: FrameType) -> bool:
    """Frames of Python, Triton, torch and kernellab are hidden; those of the shipped ops are shown."""
    file = frame.f_code.co_filename
    if frame.f_code.co_name == "<module>":  # the interpreter defines the rewritten kernel in one
        return True
    if file.startswith("<") or str(frame.f_globals.get("__name__", "")).split(".")[0] in LIBRARIES:
        return True
    path = Path(file)
    return PACKAGE in path.parents and path.relative_to(PACKAGE).parts[0] != "ops"


def root_cause(error: BaseException) -> BaseException:
    """The exception that was raised first: the interpreter wraps it once per function it passes through."""
    while isinstance(error, interpreter.InterpreterError) and error.__cause__ is not None:
        error = error.__cause__
    return error


def author_frames(error: BaseException) -> list[Place]:
    """The author's frames of an exception, outermost first: what the interpreter raises keeps the kernel's frames."""
    places, at = [], error.__traceback__
    while at is not None:
        places.append((at.tb_frame, at.tb_lineno))
        at = at.tb_next
    return [place for place in places if not is_hidden(place[0])]


def shorten_path(file: str) -> str:
    """A path relative to the current folder, where the file is below it."""
    try:
        return str(Path(file).resolve().relative_to(Path.cwd()))
    except ValueError:
        return file
