"""A function of ours as text for a script that has no kernellab: what fills inputs is written in one place only."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable
from types import ModuleType
from typing import Any

Named = Callable[[str], str]  # what a name is to be called in the script


def call(function: Callable[..., Any], wanted: str, first: str, others: str, named: Named) -> tuple[list[str], str]:
    """The lines a call needs above it, and the call: an expression of `first` alone where the function is no more.

    `others` are the arguments that follow, as text. Functions may use torch, modules, each other, and plain constants.
    """
    tree = _tree(function)
    body = tree.body
    parameters = [one.arg for one in tree.args.args]
    if len(body) == 1 and isinstance(body[0], ast.Return) and body[0].value is not None:
        used = _used(tree)
        if not used & set(parameters[1:]) and not _needs(function, used):
            return [], ast.unparse(_Renamed({parameters[0]: first}).visit(body[0].value))
    called = named(wanted)
    return _lines(function, called, named, {function: called}), f"{called}({first}{others})"


def _lines(function: Any, called: str, named: Named, known: dict[Any, str]) -> list[str]:
    """The function's definition, and above it those of the functions it calls."""
    tree, above, renamed = _tree(function), list[str](), {}
    tree.name = called
    for name, value in _needs(function, _used(tree)).items():
        if isinstance(value, ModuleType):
            above.insert(0, f"import {value.__name__}" + (f" as {name}" if name != value.__name__ else ""))
        elif callable(value):
            if value not in known:
                known[value] = named(name.strip("_"))
                above += _lines(value, known[value], named, known)
            renamed[name] = known[value]
        else:
            tree.body.insert(0, ast.parse(f"{name} = {_constant(value)}").body[0])
    return [*above, *ast.unparse(ast.fix_missing_locations(_Renamed(renamed).visit(tree))).splitlines()]


def _tree(function: Any) -> ast.FunctionDef:
    """Without what is said for readers and type checkers of our own code."""
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(function))).body
    assert isinstance(tree, ast.FunctionDef)
    tree.returns, tree.decorator_list = None, []
    for one in tree.args.args:
        one.annotation = None
    if ast.get_docstring(tree) is not None:
        del tree.body[0]
    return tree


def _used(tree: ast.AST) -> set[str]:
    return {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)}


def _needs(function: Any, used: set[str]) -> dict[str, Any]:
    """What a function finds outside of itself, torch and builtins aside."""
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    outside = {**function.__globals__, **{name: cell.cell_contents for name, cell in cells}}
    local = set(function.__code__.co_varnames)
    return {name: outside[name] for name in sorted(used - local) if name in outside and name != "torch"}


def _constant(value: Any) -> str:
    """Numbers, strings and tuples of them; an infinity has no literal."""
    if isinstance(value, tuple):
        return f"({', '.join(map(_constant, value))}{',' if len(value) == 1 else ''})"
    return f"float({str(value)!r})" if isinstance(value, float) else repr(value)


class _Renamed(ast.NodeTransformer):
    def __init__(self, names: dict[str, str]) -> None:
        self._names = names

    def visit_Name(self, node: ast.Name) -> ast.Name:
        return ast.Name(self._names.get(node.id, node.id), node.ctx)
