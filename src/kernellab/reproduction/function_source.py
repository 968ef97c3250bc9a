"""kernellab's own functions as text for a script without kernellab, so that their code is written only once."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable
from types import FunctionType, ModuleType

from kernellab.base.functions import AnyFunction

NewName = Callable[[str], str]  # a preferred name → a free one


def transcribe_call(
    function: AnyFunction, preferred: str, first: str, others: str, new_name: NewName
) -> tuple[list[str], str]:
    """The lines that a call needs above it, and the call as an expression.

    The call is `function(first, others)`; a function that is one expression of its first argument is inlined. `others`
    is text. Functions may use torch, modules, each other and plain constants.
    """
    assert isinstance(function, FunctionType)
    tree = _parse(function)
    parameters = [parameter.arg for parameter in tree.args.args]
    if len(tree.body) == 1 and isinstance(tree.body[0], ast.Return) and tree.body[0].value is not None:
        used = _names_in(tree)
        if not used & set(parameters[1:]) and not _globals_used(function, used):
            return [], ast.unparse(_Rename({parameters[0]: first}).visit(tree.body[0].value))
    name = new_name(preferred)
    return _definition(function, name, new_name, {function: name}), f"{name}({first}{others})"


def _definition(function: FunctionType, name: str, new_name: NewName, defined: dict[FunctionType, str]) -> list[str]:
    """The function's definition, below those of the functions that it calls."""
    tree, above, renamed = _parse(function), list[str](), {}
    tree.name = name
    for used, value in _globals_used(function, _names_in(tree)).items():
        if isinstance(value, ModuleType):
            above.insert(0, f"import {value.__name__}" + (f" as {used}" if used != value.__name__ else ""))
        elif isinstance(value, FunctionType):
            if value not in defined:
                defined[value] = new_name(used.strip("_"))
                above += _definition(value, defined[value], new_name, defined)
            renamed[used] = defined[value]
        else:
            tree.body.insert(0, ast.parse(f"{used} = {_constant(value)}").body[0])
    return [*above, *ast.unparse(ast.fix_missing_locations(_Rename(renamed).visit(tree))).splitlines()]


def _parse(function: FunctionType) -> ast.FunctionDef:
    """Without docstring, annotations and decorators."""
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(function))).body
    assert isinstance(tree, ast.FunctionDef)
    tree.returns, tree.decorator_list = None, []
    for parameter in tree.args.args:
        parameter.annotation = None
    if ast.get_docstring(tree) is not None:
        del tree.body[0]
    return tree


def _names_in(tree: ast.AST) -> set[str]:
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}


def _globals_used(function: FunctionType, used: set[str]) -> dict[str, object]:
    """What a function uses from outside itself, except torch and builtins."""
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    outside = {**function.__globals__, **{name: cell.cell_contents for name, cell in cells}}
    local = set(function.__code__.co_varnames)
    return {name: outside[name] for name in sorted(used - local) if name in outside and name != "torch"}


def _constant(value: object) -> str:
    """Numbers, strings and tuples of them; an infinity has no literal."""
    if isinstance(value, tuple):
        return f"({', '.join(map(_constant, value))}{',' if len(value) == 1 else ''})"
    return f"float({str(value)!r})" if isinstance(value, float) else repr(value)


class _Rename(ast.NodeTransformer):
    def __init__(self, names: dict[str, str]) -> None:
        self._names = names

    def visit_Name(self, node: ast.Name) -> ast.Name:
        return ast.Name(self._names.get(node.id, node.id), node.ctx)
