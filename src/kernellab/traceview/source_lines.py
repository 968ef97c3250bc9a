"""Finds the source line that made a call, from the Python rows of a profile.

PyTorch's profiler names a Python call by the line its function begins on, not by the line that called it. The calling
line is searched in the source: the calls of that name in the function and, if there are several, the one that lies
between the calls recorded before and after. Without the source, only the function's first line is known.
"""

from __future__ import annotations

import ast
import builtins
import enum
import functools
import importlib.util
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kernellab.traces.trace import MATCHED_CHARACTERS

_FRAME = re.compile(r"^(?P<file>.+\.py|<.+?>)\((?P<line>\d+)\): (?P<function>.+)$")
_BUILT_IN = re.compile(r"^<built-in (?:method|function) (?P<name>\w*)")
# Functions of torch that a caller does not write by their name: what is written instead, empty if unknown.
_NAMELESS = ("inner", "compile_wrapper", "__init__", "_wrapped_call_impl", "_call_impl")
_WRITTEN_AS = {"wrapper": "step", **dict.fromkeys(_NAMELESS, "")}
# Calls and constructs that run an operator without a Python row of their own.
_CONDITION = "if"
OPERATOR_CALLS = {
    "aten::item": ("float", "int", "bool", "complex"),
    "aten::is_nonzero": (_CONDITION, "bool", "any", "all"),
}
_ARITHMETIC = ("wrapped",)
# The syntax that runs an operator, by the names of Python's grammar.
_SYNTAX = {
    "aten::matmul": "MatMult", "aten::mm": "MatMult", "aten::bmm": "MatMult", "aten::mv": "MatMult",
    "aten::mul": "Mult", "aten::mul_": "Mult", "aten::add": "Add", "aten::add_": "Add", "aten::sub": "Sub",
    "aten::sub_": "Sub", "aten::rsub": "Sub", "aten::div": "Div", "aten::div_": "Div", "aten::pow": "Pow",
    "aten::remainder": "Mod", "aten::neg": "USub", "aten::bitwise_not": "Invert",
    "aten::select": "Subscript", "aten::slice": "Subscript", "aten::index": "Subscript",
}  # fmt: skip
DECORATORS = ("decorate_context", "decorate_autocast", "wrapper", "wrapped", "inner", "_fn", "__call__")
_LOOP_CALLS = ("__next__", "__iter__")
_FORMAT_CALLS = ("__format__", "__repr__", "__str__")


class Owner(enum.IntEnum):
    """Whose code a frame is."""

    LIBRARY = 0  # torch, Python's standard library, or kernellab
    PACKAGE = 1  # an installed package
    USER = 2


@dataclass(frozen=True)
class Frame:
    file: str
    line: int
    function: str


def parse_frame(name: str) -> Frame | None:
    """File, line and function of a row named `file.py(12): function`."""
    match = _FRAME.match(name[:MATCHED_CHARACTERS])
    return Frame(match["file"], int(match["line"]), match["function"]) if match else None


@functools.cache
def called_as(name: str) -> str:
    """What a caller writes to make this call: `item`, `backward`; empty if that is unknown."""
    built_in = _BUILT_IN.match(name)
    if built_in:
        return built_in["name"]
    frame = parse_frame(name)
    if frame is None:
        return ""
    return _WRITTEN_AS.get(frame.function, frame.function) if "torch" in Path(frame.file).parts else frame.function


def is_decorator(name: str) -> bool:
    """Whether a call may be the wrapper of a decorated function."""
    frame = parse_frame(name)
    return frame is not None and frame.function in DECORATORS


def is_arithmetic(name: str) -> bool:
    """Whether a call is made by an operator between tensors: `x ** 3`."""
    frame = parse_frame(name)
    return frame is not None and frame.function in _ARITHMETIC and frame.file.endswith("torch/_tensor.py")


@functools.cache
def owner(name: str) -> Owner:
    """Whose code a row belongs to."""
    frame = parse_frame(name)
    if frame is None or frame.file.startswith("<"):
        return Owner.LIBRARY
    parts = Path(frame.file).parts
    if "site-packages" in parts or "dist-packages" in parts:
        parts = parts[max(at for at, part in enumerate(parts) if part.endswith("-packages")) + 1 :]
        return Owner.LIBRARY if _is_torch(parts) else Owner.PACKAGE
    if any(re.fullmatch(r"python3\.\d+", part) for part in parts):
        return Owner.LIBRARY
    if "kernellab" in parts:
        return Owner.PACKAGE if "workloads" in parts else Owner.LIBRARY
    if Path(frame.file).is_absolute() or is_file(Path(frame.file)):
        return Owner.USER
    if _is_torch(parts) or Path(parts[0]).stem in sys.stdlib_module_names:
        return Owner.LIBRARY
    return Owner.PACKAGE if _is_installed(Path(parts[0]).stem) else Owner.USER


def is_file(path: Path) -> bool:
    """Whether a file exists; False for names that no file can have."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def _is_torch(parts: Sequence[str]) -> bool:
    return bool(parts) and parts[0] in ("torch", "triton", "torchgen", "functorch", "numpy")


@functools.cache
def _is_installed(package: str) -> bool:
    """Whether a package is imported from an installation folder; a project installed in place is the user's code."""
    if not package.isidentifier():  # find_spec("a.b") would import `a`
        return False
    try:
        spec = importlib.util.find_spec(package)
    except (ImportError, ValueError):
        return False
    places = [] if spec is None else [spec.origin or "", *(spec.submodule_search_locations or [])]
    return any(part.endswith("-packages") for place in places for part in Path(place).parts)


def _is_plain_loop(iterated: ast.expr) -> bool:
    """Whether a loop runs over numbers or a literal, so that no `__next__` is recorded."""
    if isinstance(iterated, ast.Call):
        return isinstance(iterated.func, ast.Name) and iterated.func.id == "range"
    return isinstance(iterated, ast.Tuple | ast.List | ast.Set | ast.Constant)


@dataclass(frozen=True)
class _Statement:
    line: int
    weight: int  # number of operations and calls
    syntax: tuple[str, ...]  # its operators and subscripts, by the names of Python's grammar

    @classmethod
    def parse(cls, node: ast.stmt) -> _Statement:
        parts = list(ast.walk(node))
        weight = sum(isinstance(part, ast.BinOp | ast.Call) for part in parts)
        syntax = [type(part.op).__name__ for part in parts if isinstance(part, ast.BinOp | ast.AugAssign | ast.UnaryOp)]
        syntax += [type(part).__name__ for part in parts if isinstance(part, ast.Subscript)]
        return cls(node.lineno, weight + isinstance(node, ast.AugAssign), tuple(syntax))


class Function:
    """A function's calls and statements in the source, without those of functions nested in it."""

    def __init__(self, node: ast.AST, text: Sequence[str]) -> None:
        self._text = text
        self._first = int(getattr(node, "lineno", 1))
        self._calls: list[tuple[int, str]] = []
        self._statements: list[_Statement] = []
        self._loops: list[tuple[int, int]] = []  # first and last lines, inner loops before outer ones
        self._visit(node)
        self._calls.sort(key=lambda call: call[0])

    def _visit(self, node: ast.AST) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
                continue
            self._visit(child)
            if isinstance(child, ast.For | ast.AsyncFor | ast.While):
                self._loops.append((child.lineno, child.end_lineno or child.lineno))
            if isinstance(child, ast.Call):
                callee = child.func
                name = callee.attr if isinstance(callee, ast.Attribute) else getattr(callee, "id", "")
                self._calls.append((callee.end_lineno or child.lineno, name))
            elif isinstance(child, ast.For | ast.AsyncFor) and not _is_plain_loop(child.iter):
                self._calls += [(child.lineno, name) for name in _LOOP_CALLS]
            elif isinstance(child, ast.If | ast.While | ast.IfExp | ast.Assert):
                self._calls += [] if isinstance(child.test, ast.Constant) else [(child.lineno, _CONDITION)]
            elif isinstance(child, ast.JoinedStr):
                self._calls += [(child.lineno, name) for name in _FORMAT_CALLS]
            if isinstance(child, ast.Assign | ast.AugAssign | ast.AnnAssign | ast.Return | ast.Expr):
                self._statements.append(_Statement.parse(child))

    def calls(self, name: str) -> bool:
        """Whether the function calls a name; the empty name stands for any object."""
        return not name or bool(self._lines(name))

    def find_line(self, names: Sequence[str], before: Sequence[str], after: Sequence[str]) -> int | None:
        """The line that calls one of `names`, given the calls made before it (nearest first) and after it.

        An empty name is the call of an object: a module's row is named by its class, its call by a variable.
        """
        if "" in names:
            return self._find_object_call(before, after)
        candidates = sorted({line for name in names for line in self._lines(name)})
        if len(candidates) < 2:
            return candidates[0] if candidates else None
        within = next((part for part in self._between(candidates, names, before, after) if part), [])
        if within and set(names) <= set(_LOOP_CALLS):
            return within[-1]  # of nested loops, the innermost is nearest to the calls after it
        return within[0] if within else candidates[0]

    def find_statement(self, before: Sequence[str], after: Sequence[str], operator: str = "") -> int:
        """The line of the statement that computes most, preferring those with the operator's syntax."""
        parts = self._between([statement.line for statement in self._statements], (), before, after)
        near = {line for part in parts for line in part}
        candidates = [statement for statement in self._statements if statement.line in near] or self._statements
        syntax = _SYNTAX.get(operator, "")
        candidates = [statement for statement in candidates if syntax in statement.syntax] or candidates
        if not any(statement.weight for statement in candidates):
            return self._first
        return max(candidates, key=lambda statement: self._rank(statement, syntax)).line

    def _rank(self, statement: _Statement, syntax: str) -> tuple[int, ...]:
        loops = sum(first <= statement.line <= last for first, last in self._loops)
        return statement.syntax.count(syntax), statement.weight, loops, -statement.line

    def _between(
        self, lines: Sequence[int], names: Sequence[str], before: Sequence[str], after: Sequence[str]
    ) -> list[list[int]]:
        """The lines between the nearest calls whose line is unique; two parts if a loop started over in between."""
        low = next((self._lines(name)[0] for name in before if name not in names and self._is_unique(name)), None)
        high = next((self._lines(name)[0] for name in after if name not in names and self._is_unique(name)), None)
        if low is not None and high is not None and high <= low:
            around = ((first, last) for first, last in self._loops if first <= high and low <= last)
            first, last = next(around, (self._first, len(self._text)))
            return [[line for line in lines if low <= line <= last], [line for line in lines if first <= line <= high]]
        return [[line for line in lines if (low is None or line >= low) and (high is None or line <= high)]]

    def _lines(self, name: str) -> list[int]:
        return sorted({line for line, called in self._calls if called == name})

    def _is_unique(self, name: str) -> bool:
        return len(self._lines(name)) == 1

    def _find_object_call(self, before: Sequence[str], after: Sequence[str]) -> int | None:
        """The call that remains without recorded and built-in names, counted back from the next unique call."""
        excluded = {*before, *after, *_LOOP_CALLS, *_FORMAT_CALLS, _CONDITION, *dir(builtins)}
        # A name with a capital letter constructs an object; it does not call one.
        candidates = [line for line, name in self._calls if name not in excluded and not name[:1].isupper()]
        remaining = [line for part in self._between(candidates, (), before, after) for line in part]
        if "" in (*before, *after):  # another object call before or after it: the call is in a loop
            in_loops = [line for line in remaining if any(first <= line <= last for first, last in self._loops)]
            remaining = in_loops or remaining
        next_unique = next((at for at, name in enumerate(after) if self._is_unique(name)), None)
        if next_unique is None:
            return remaining[0] if remaining else None
        between = sum(not name for name in after[:next_unique])
        return remaining[max(len(remaining) - 1 - between, 0)] if remaining else None

    def text(self, line: int) -> str:
        return self._text[line - 1].strip() if 0 < line <= len(self._text) else ""


class Sources:
    """Source files as they are now, if they can be found. Folders are tried in order."""

    def __init__(self, folders: Sequence[Path] = ()) -> None:
        self._folders = [Path(), *folders, *(Path(entry) for entry in sys.path if entry)]
        self._files: dict[str, tuple[ast.Module, list[str]] | None] = {}

    def function(self, frame: Frame) -> Function | None:
        """The function that contains a frame's line."""
        parsed = self._parse(frame.file)
        if parsed is None:
            return None
        module, text = parsed
        if frame.function == "<module>":
            return Function(module, text)
        for node in ast.walk(module):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == frame.function:
                first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
                if first <= frame.line <= (node.end_lineno or first):
                    return Function(node, text)
        return None

    def _parse(self, file: str) -> tuple[ast.Module, list[str]] | None:
        if file not in self._files:
            self._files[file] = self._read(file)
        return self._files[file]

    def _read(self, file: str) -> tuple[ast.Module, list[str]] | None:
        for folder in self._folders:
            try:
                text = (folder / file).read_text()
                return ast.parse(text), text.splitlines()
            except (OSError, ValueError, SyntaxError):
                continue
        return None
