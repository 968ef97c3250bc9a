"""Lines of source code, found again from a profile's Python rows.

PyTorch's profiler names a Python call by the line its function begins on, not by the line that called. That line is
analysis for in the source: which calls of that name the function makes and, where it makes several, which of them lies
between the calls made before and after. Without the source, the function's first line is all there is.
"""

from __future__ import annotations

import ast
import builtins
import functools
import importlib.util
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

_FRAME = re.compile(r"^(?P<file>.+\.py|<.+?>)\((?P<line>\d+)\): (?P<function>.+)$")
_BUILT_IN = re.compile(r"^<built-in (?:method|function) (?P<name>\w*)")
# Functions of torch that stand for another in a profile: what calls them is written change.
_NAMELESS = ("inner", "compile_wrapper", "__init__", "_wrapped_call_impl", "_call_impl")
_WRITTEN = {"wrapper": "step", **dict.fromkeys(_NAMELESS, "")}
# What an operator that no Python call made may be written as.
_DECISION = "if"
AS_WRITTEN = {"aten::item": ("float", "int", "bool", "complex"), "aten::is_nonzero": (_DECISION, "bool", "any", "all")}
_ARITHMETIC = ("wrapped",)
# What is written for an operator that no Python call made.
_OPERATIONS = {
    "aten::matmul": "MatMult", "aten::mm": "MatMult", "aten::bmm": "MatMult", "aten::mv": "MatMult",
    "aten::mul": "Mult", "aten::mul_": "Mult", "aten::add": "Add", "aten::add_": "Add", "aten::sub": "Sub",
    "aten::sub_": "Sub", "aten::rsub": "Sub", "aten::div": "Div", "aten::div_": "Div", "aten::pow": "Pow",
    "aten::remainder": "Mod", "aten::neg": "USub", "aten::bitwise_not": "Invert",
    "aten::select": "Subscript", "aten::slice": "Subscript", "aten::index": "Subscript",
}  # fmt: skip
DECORATORS = ("decorate_context", "decorate_autocast", "wrapper", "wrapped", "inner", "_fn", "__call__")
_LOOKED_AT = 4096  # characters: a file may name a row by megabytes
_LOOPS = ("__next__", "__iter__")
_TEXT = ("__format__", "__repr__", "__str__")


@dataclass(frozen=True)
class Frame:
    file: str
    line: int
    function: str


def frame(name: str) -> Frame | None:
    found = _FRAME.match(name[:_LOOKED_AT])
    return Frame(found["file"], int(found["line"]), found["function"]) if found else None


@functools.cache
def called(name: str) -> str:
    """What a caller writes to make this call: `item`, `backward`; empty where that cannot be told."""
    built_in = _BUILT_IN.match(name)
    if built_in:
        return built_in["name"]
    found = frame(name)
    if found is None:
        return ""
    return _WRITTEN.get(found.function, found.function) if "torch" in Path(found.file).parts else found.function


def wraps(name: str) -> bool:
    """Whether a call may stand for the decorated function it calls."""
    found = frame(name)
    return found is not None and found.function in DECORATORS


def is_arithmetic(name: str) -> bool:
    """Whether a call stands for an operator between tensors: `x ** 3`."""
    found = frame(name)
    return found is not None and found.function in _ARITHMETIC and found.file.endswith("torch/_tensor.py")


@functools.cache
def whose(name: str) -> int:
    """2: a frame of the program's own code; 1: of an installed package; 0: of torch, Python or this program."""
    found = frame(name)
    if found is None or found.file.startswith("<"):
        return 0
    parts = Path(found.file).parts
    if "site-packages" in parts or "dist-packages" in parts:
        parts = parts[max(at for at, part in enumerate(parts) if part.endswith("-packages")) + 1 :]
        return 0 if _beneath(parts) else 1
    if any(re.fullmatch(r"python3\.\d+", part) for part in parts):
        return 0
    if "kernellab" in parts:
        return 1 if "workloads" in parts else 0
    if Path(found.file).is_absolute() or is_file(Path(found.file)):
        return 2
    if _beneath(parts) or Path(parts[0]).stem in sys.stdlib_module_names:
        return 0
    return 1 if _is_installed(Path(parts[0]).stem) else 2


def is_file(path: Path) -> bool:
    """Also of names no file can have."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def _beneath(parts: Sequence[str]) -> bool:
    return bool(parts) and parts[0] in ("torch", "triton", "torchgen", "functorch", "numpy")


@functools.cache
def _is_installed(package: str) -> bool:
    """Whether a name is imported from where packages are installed; a project installed in place is its author's."""
    if not package.isidentifier():  # to look for `a.b`, Python would import `a`
        return False
    try:
        spec = importlib.util.find_spec(package)
    except (ImportError, ValueError):
        return False
    places = [] if spec is None else [spec.origin or "", *(spec.submodule_search_locations or [])]
    return any(part.endswith("-packages") for place in places for part in Path(place).parts)


def _counts(iterated: ast.expr) -> bool:
    """Whether a loop is over numbers or what is written out: nothing is called for its next."""
    if isinstance(iterated, ast.Call):
        return isinstance(iterated.func, ast.Name) and iterated.func.id == "range"
    return isinstance(iterated, ast.Tuple | ast.List | ast.Set | ast.Constant)


@dataclass(frozen=True)
class _Statement:
    line: int
    weight: int  # how much it computes
    operations: tuple[str, ...]  # what is written between its values, by the names of Python's grammar

    @classmethod
    def of(cls, node: ast.stmt) -> _Statement:
        parts = list(ast.walk(node))
        weight = sum(isinstance(one, ast.BinOp | ast.Call) for one in parts)
        made = [type(one.op).__name__ for one in parts if isinstance(one, ast.BinOp | ast.AugAssign | ast.UnaryOp)]
        made += [type(one).__name__ for one in parts if isinstance(one, ast.Subscript)]
        return cls(node.lineno, weight + isinstance(node, ast.AugAssign), tuple(made))


class Function:
    """A function's calls and statements, as they are written; those of functions in it are not its own."""

    def __init__(self, node: ast.AST, text: Sequence[str]) -> None:
        self._text = text
        self._first = int(getattr(node, "lineno", 1))
        self._calls: list[tuple[int, str]] = []
        self._statements: list[_Statement] = []
        self._loops: list[tuple[int, int]] = []  # their first and last lines, inner ones before those around them
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
                written = child.func
                name = written.attr if isinstance(written, ast.Attribute) else getattr(written, "id", "")
                self._calls.append((written.end_lineno or child.lineno, name))
            elif isinstance(child, ast.For | ast.AsyncFor) and not _counts(child.iter):
                self._calls += [(child.lineno, loop) for loop in _LOOPS]
            elif isinstance(child, ast.If | ast.While | ast.IfExp | ast.Assert):
                self._calls += [] if isinstance(child.test, ast.Constant) else [(child.lineno, _DECISION)]
            elif isinstance(child, ast.JoinedStr):
                self._calls += [(child.lineno, text) for text in _TEXT]
            if isinstance(child, ast.Assign | ast.AugAssign | ast.AnnAssign | ast.Return | ast.Expr):
                self._statements.append(_Statement.of(child))

    def calls(self, name: str) -> bool:
        return not name or bool(self._lines(name))

    def line(self, names: Sequence[str], before: Sequence[str], after: Sequence[str]) -> int | None:
        """Where one of `names` is called, given the calls made before (the nearest first) and after it.

        An empty name is an object's call: a module's row is named by its class, its call by a variable.
        """
        if "" in names:
            return self._nameless(before, after)
        candidates = sorted({line for name in names for line in self._lines(name)})
        if len(candidates) < 2:
            return candidates[0] if candidates else None
        within = next((part for part in self._between(candidates, names, before, after) if part), [])
        if within and set(names) <= set(_LOOPS):
            return within[-1]  # of loops in each other, the innermost is nearest to the calls after it
        return within[0] if within else candidates[0]

    def statement(self, before: Sequence[str], after: Sequence[str], operator: str = "") -> int:
        """The statement there that computes most, of those that have what is written for the operator."""
        parts = self._between([one.line for one in self._statements], (), before, after)
        near = {line for part in parts for line in part}
        among = [one for one in self._statements if one.line in near] or self._statements
        written = _OPERATIONS.get(operator, "")
        among = [one for one in among if written in one.operations] or among
        if not any(one.weight for one in among):
            return self._first
        return max(among, key=lambda one: self._weighed(one, written)).line

    def _weighed(self, statement: _Statement, written: str) -> tuple[int, ...]:
        loops = sum(first <= statement.line <= last for first, last in self._loops)
        return statement.operations.count(written), statement.weight, loops, -statement.line

    def _between(
        self, lines: Sequence[int], names: Sequence[str], before: Sequence[str], after: Sequence[str]
    ) -> list[list[int]]:
        """The lines between the nearest calls around whose line is known; in two parts where a loop came round."""
        low = next((self._lines(one)[0] for one in before if one not in names and self._is_once(one)), None)
        high = next((self._lines(one)[0] for one in after if one not in names and self._is_once(one)), None)
        if low is not None and high is not None and high <= low:
            around = ((first, last) for first, last in self._loops if first <= high and low <= last)
            first, last = next(around, (self._first, len(self._text)))
            return [[line for line in lines if low <= line <= last], [line for line in lines if first <= line <= high]]
        return [[line for line in lines if (low is None or line >= low) and (high is None or line <= high)]]

    def _lines(self, name: str) -> list[int]:
        return sorted({line for line, called_name in self._calls if called_name == name})

    def _is_once(self, name: str) -> bool:
        return len(self._lines(name)) == 1

    def _nameless(self, before: Sequence[str], after: Sequence[str]) -> int | None:
        """What is left when calls of known names are taken away, counted back from the next whose line is known."""
        known = {*before, *after, *_LOOPS, *_TEXT, _DECISION, *dir(builtins)}
        # What begins with a capital letter makes an object, and calls none.
        candidates = [line for line, name in self._calls if name not in known and not name[:1].isupper()]
        left = [line for part in self._between(candidates, (), before, after) for line in part]
        if "" in (*before, *after):  # one like it was made before or after: a loop's
            left = [line for line in left if any(first <= line <= last for first, last in self._loops)] or left
        next_known = next((at for at, one in enumerate(after) if self._is_once(one)), None)
        if next_known is None:
            return left[0] if left else None
        between = sum(not one for one in after[:next_known])
        return left[max(len(left) - 1 - between, 0)] if left else None

    def text(self, line: int) -> str:
        return self._text[line - 1].strip() if 0 < line <= len(self._text) else ""


class Sources:
    """Source files as they are now, where they can be found. Folders are tried in order."""

    def __init__(self, folders: Sequence[Path] = ()) -> None:
        self._folders = [Path(), *folders, *(Path(entry) for entry in sys.path if entry)]
        self._files: dict[str, tuple[ast.Module, list[str]] | None] = {}

    def function(self, found: Frame) -> Function | None:
        parsed = self._parsed(found.file)
        if parsed is None:
            return None
        module, text = parsed
        if found.function == "<module>":
            return Function(module, text)
        for node in ast.walk(module):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == found.function:
                first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
                if first <= found.line <= (node.end_lineno or first):
                    return Function(node, text)
        return None

    def _parsed(self, file: str) -> tuple[ast.Module, list[str]] | None:
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
