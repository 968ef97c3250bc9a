"""Lines of source code, found again from a profile's Python rows.

PyTorch's profiler names a Python call by the line its function begins on, not by the line that called. That line is
looked for in the source: which calls of that name the function makes and, where it makes several, which of them lies
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
# Functions of torch that stand for another in a profile: what calls them is written otherwise.
_WRITTEN = {"wrapper": "step", "inner": "", "_wrapped_call_impl": "", "_call_impl": ""}
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
    if Path(found.file).is_absolute() or Path(found.file).is_file():
        return 2
    if _beneath(parts) or Path(parts[0]).stem in sys.stdlib_module_names:
        return 0
    return 1 if _is_installed(Path(parts[0]).stem) else 2


def _beneath(parts: Sequence[str]) -> bool:
    return bool(parts) and parts[0] in ("torch", "triton", "torchgen", "functorch", "numpy")


@functools.cache
def _is_installed(package: str) -> bool:
    """Whether a name is imported from where packages are installed; a project installed in place is its author's."""
    try:
        spec = importlib.util.find_spec(package)
    except (ImportError, ValueError):
        return False
    places = [] if spec is None else [spec.origin or "", *(spec.submodule_search_locations or [])]
    return any(part.endswith("-packages") for place in places for part in Path(place).parts)


class Function:
    """A function's calls, in the order they are written; those of functions in it are not its own."""

    def __init__(self, node: ast.AST, text: Sequence[str]) -> None:
        self._text = text
        self.calls: list[tuple[int, str]] = []
        self.heaviest = self._heaviest(node)
        self._visit(node)

    def _visit(self, node: ast.AST) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
                continue
            self._visit(child)
            if isinstance(child, ast.Call):
                written = child.func
                name = written.attr if isinstance(written, ast.Attribute) else getattr(written, "id", "")
                self.calls.append((written.end_lineno or child.lineno, name))
            elif isinstance(child, ast.For | ast.AsyncFor):
                self.calls += [(child.lineno, loop) for loop in _LOOPS]
            elif isinstance(child, ast.JoinedStr):
                self.calls += [(child.lineno, text) for text in _TEXT]
        self.calls.sort(key=lambda call: call[0])

    @staticmethod
    def _heaviest(node: ast.AST) -> int:
        """The statement that computes most: where arithmetic is written, no row of a profile says its line."""
        body = [one for one in getattr(node, "body", []) if not isinstance(one, ast.FunctionDef | ast.ClassDef)]
        work = [(sum(isinstance(n, ast.BinOp | ast.Call) for n in ast.walk(one)), -one.lineno) for one in body]
        most, line = max(work, default=(0, 0))
        return -line if most else int(getattr(node, "lineno", 1))

    def lines(self, name: str) -> list[int]:
        return sorted({line for line, called_name in self.calls if called_name == name})

    def line(self, name: str, before: Sequence[str], after: Sequence[str]) -> int | None:
        """Where `name` is called, given the calls made before (the nearest first) and after it."""
        if not name:
            return self._nameless(before, after)
        candidates = self.lines(name)
        if not candidates:
            return None
        if len(candidates) == 1:
            return candidates[0]
        low = next((self.lines(one)[0] for one in before if one != name and self._is_once(one)), None)
        high = next((self.lines(one)[0] for one in after if one != name and self._is_once(one)), None)
        within = [c for c in candidates if (low is None or c >= low) and (high is None or c <= high)]
        if within:
            return within[0]
        # A loop's end: what came before is written below.
        return next((c for c in candidates if high is None or c <= high), candidates[0])

    def _is_once(self, name: str) -> bool:
        return len(self.lines(name)) == 1

    def _nameless(self, before: Sequence[str], after: Sequence[str]) -> int | None:
        """Where an object is called: a module's row is named by its class, its call by a variable.

        What is left when calls of known names are taken away, counted back from the next call whose line is known.
        """
        known = {*before, *after, *_LOOPS, *_TEXT, *dir(builtins)}
        low = next((self.lines(one)[0] for one in before if self._is_once(one)), 0)
        next_known = next((at for at, one in enumerate(after) if self._is_once(one)), None)
        left = [line for line, name in self.calls if name not in known and line >= low]
        if next_known is None:
            return left[0] if left else None
        high = self.lines(after[next_known])[0]
        left = [line for line in left if line <= high] or left
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
