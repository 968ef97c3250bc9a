"""Counts the lines of code of an implementation: its kernels, and the Python that launches them.

The author's functions that a call executes count; functions of torch, Triton and kernellab do not. Blank lines,
comments, docstrings and decorators do not count. CUDA C++ and C++ are counted per file, with their headers.
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

_PACKAGE = Path(__file__).resolve().parent.parent
_SHIPPED_OPS = _PACKAGE / "ops"
_LIBRARY_PATHS = ("stdlib", "platstdlib", "purelib", "platlib")
_LIBRARIES = tuple(str(Path(sysconfig.get_path(name)).resolve()) for name in _LIBRARY_PATHS)
_C_COMMENTS = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_NOT_CODE = frozenset(
    (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
)


@contextlib.contextmanager
def functions_called() -> Iterator[set[CodeType]]:
    """Collect the author's functions that the body of the context calls."""
    functions: set[CodeType] = set()

    def profile(frame: FrameType, event: str, arg: object) -> None:
        code = frame.f_code
        if event == "call" and not code.co_name.startswith("<") and _is_authors_file(code.co_filename):
            functions.add(code)

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        yield functions
    finally:
        sys.setprofile(before)


@functools.cache
def _is_authors_file(file: str) -> bool:
    if file.startswith("<"):
        return False
    path = str(Path(file).resolve())
    if path.startswith(str(_SHIPPED_OPS)):
        return True
    return not path.startswith((str(_PACKAGE), *_LIBRARIES))


def lines_of_functions(codes: Iterable[CodeType]) -> int:
    """The lines of these functions. A function without source text counts 0."""
    total = 0
    for code in codes:
        with contextlib.suppress(OSError, TypeError):
            total += python_lines(inspect.getsource(code))
    return total


def python_lines(text: str) -> int:
    text = textwrap.dedent(text)
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in _NOT_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef, ast.Module)) and ast.get_docstring(node, clean=False):
            docstring = node.body[0]
            lines -= set(range(docstring.lineno, (docstring.end_lineno or docstring.lineno) + 1))
        if isinstance(node, ast.FunctionDef) and node.decorator_list:  # decorators declare an op, they launch nothing
            lines -= set(range(node.decorator_list[0].lineno, node.lineno))
    return len(lines)


def c_lines(text: str) -> int:
    return sum(bool(line.strip()) for line in _C_COMMENTS.sub("", text).splitlines())
