"""How much code a way takes: lines of its kernels, and of the Python that gets them launched.

Counted are the functions a call really goes through, its author's and not those of torch, Triton or this package's
machinery; without blank lines, comments, docstrings and decorators. CUDA C++ and C++ are counted by the file, headers
included.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import inspect
import io
import re
import sys
import sysconfig
import textwrap
import tokenize
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

_PACKAGE = Path(__file__).resolve().parent.parent
_SHIPPED = _PACKAGE / "ops"
_PLACES = ("stdlib", "platstdlib", "purelib", "platlib")
_LIBRARIES = tuple(str(Path(sysconfig.get_path(name)).resolve()) for name in _PLACES)
_COMMENTS = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_NOTHING = frozenset(
    (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
)


@contextlib.contextmanager
def functions_called() -> Iterator[set[CodeType]]:
    """The author's functions that the body goes through."""
    found: set[CodeType] = set()

    def note(frame: FrameType, event: str, arg: Any) -> None:
        code = frame.f_code
        if event == "call" and not code.co_name.startswith("<") and _authors(code.co_filename):
            found.add(code)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        yield found
    finally:
        sys.setprofile(before)


@functools.cache
def _authors(file: str) -> bool:
    if file.startswith("<"):
        return False
    path = str(Path(file).resolve())
    if path.startswith(str(_SHIPPED)):
        return True
    return not path.startswith((str(_PACKAGE), *_LIBRARIES))


def lines_of_functions(codes: Iterable[CodeType]) -> int:
    """What cannot be read any more counts as nothing."""
    total = 0
    for code in codes:
        with contextlib.suppress(OSError, TypeError):
            total += python_lines(inspect.getsource(code))
    return total


def python_lines(text: str) -> int:
    text = textwrap.dedent(text)
    used: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in _NOTHING:
            used.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef, ast.Module)) and ast.get_docstring(node, clean=False):
            said = node.body[0]
            used -= set(range(said.lineno, (said.end_lineno or said.lineno) + 1))
        if isinstance(node, ast.FunctionDef) and node.decorator_list:  # declaring an op is not launching a kernel
            used -= set(range(node.decorator_list[0].lineno, node.lineno))
    return len(used)


def c_lines(text: str) -> int:
    return sum(bool(line.strip()) for line in _COMMENTS.sub("", text).splitlines())
