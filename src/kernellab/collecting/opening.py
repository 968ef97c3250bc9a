"""Where a program's own work begins: after the imports, definitions and settings it opens with. Nothing is executed."""

from __future__ import annotations

import ast
import builtins
import sys
from collections.abc import Iterator

_DEFINING = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_LOOPS = (ast.For, ast.While, ast.With, ast.AsyncFor, ast.AsyncWith, ast.Match)


def length(body: list[ast.stmt]) -> int:
    """How many statements at the beginning only import, define, or call Python's own library."""
    known = set(dir(builtins))
    for number, statement in enumerate(body):
        if not _opens(statement, known):
            return number
    return len(body)


def _opens(statement: ast.stmt, known: set[str]) -> bool:
    """Whether it belongs to the opening; then the names it gives to things of Python's own are known."""
    if isinstance(statement, _DEFINING):
        return True
    parts = list(_outside_functions(statement))
    if any(isinstance(part, _LOOPS) for part in parts):
        return False
    if any(isinstance(part, ast.Call) and _root(part.func) not in known for part in parts):
        return False
    read = {part.id for part in parts if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load)}
    for part in parts:
        if isinstance(part, ast.Import):
            known |= {_bound(alias) for alias in part.names if _is_pythons(alias.name)}
        elif isinstance(part, ast.ImportFrom) and part.module and _is_pythons(part.module):
            known |= {alias.asname or alias.name for alias in part.names}
        elif isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store) and read <= known:
            known.add(part.id)
    return True


def _is_pythons(module: str) -> bool:
    return module.partition(".")[0] in sys.stdlib_module_names


def _bound(alias: ast.alias) -> str:
    return alias.asname or alias.name.partition(".")[0]


def _root(called: ast.expr) -> str:
    """`parser` of `parser.add_argument`."""
    while isinstance(called, (ast.Attribute, ast.Call, ast.Subscript)):
        called = called.func if isinstance(called, ast.Call) else called.value
    if isinstance(called, (ast.Constant, ast.JoinedStr)):
        return "str"
    return called.id if isinstance(called, ast.Name) else ""


def _outside_functions(node: ast.AST) -> Iterator[ast.AST]:
    yield node
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, (*_DEFINING, ast.Lambda)):
            yield from _outside_functions(child)
