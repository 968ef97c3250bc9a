"""Op files with imports that fail: the file is loaded all the same, and only what uses the module cannot run.

A name that a failed import would have bound is a placeholder. While the file is loaded, a placeholder can be called and
used as a decorator or a base class; afterwards a call raises `NotLoaded` with the reason.
"""

from __future__ import annotations

import ast
import contextlib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

from kernellab.base.user_code import explain

_REQUIRED = ("torch", "kernellab")  # without these nothing in the file could run
_HANDLER = "__kernellab_import_failed__"


class NotLoaded(Exception):
    """A module that could not be imported is needed now."""


class _Loading:
    depth = 0


@contextlib.contextmanager
def loading() -> Iterator[None]:
    """While op files are executed, placeholders may be called."""
    _Loading.depth += 1
    try:
        yield
    finally:
        _Loading.depth -= 1


class Placeholder:
    """In the place of a module, or of something in it, that could not be imported."""

    def __init__(self, name: str, reason: str) -> None:
        self.__name__, self._reason = name, reason

    def __getattr__(self, name: str) -> Placeholder:
        if name.startswith("__"):
            raise AttributeError(name)
        return Placeholder(f"{self.__name__}.{name}", self._reason)

    def __getitem__(self, key: object) -> Placeholder:
        return self

    def __call__(self, *args: object, **kwargs: object) -> Placeholder:
        if not _Loading.depth:
            raise NotLoaded(self._reason)
        return self

    def __mro_entries__(self, bases: tuple[object, ...]) -> tuple[type, ...]:
        """A class that derives from it derives from nothing, and is never used."""
        return ()

    def __repr__(self) -> str:
        return f"<{self.__name__}, which could not be imported>"


def execute(path: Path, module: ModuleType, failures: list[BaseException]) -> None:
    """Execute a file as this module. The errors of its imports are added to `failures`."""

    def import_failed(error: BaseException, imported: str, names: list[str]) -> None:
        failures.append(error)
        reason = f"{imported} could not be imported: {explain(error)}"
        for name in names:
            setattr(module, name, Placeholder(name, reason))

    setattr(module, _HANDLER, import_failed)
    # In bytes: Python finds the encoding.
    tree = _Transformer().visit(ast.parse(path.read_bytes(), str(path)))
    code = compile(ast.fix_missing_locations(tree), str(path), "exec", dont_inherit=True)
    with loading():
        exec(code, vars(module))


class _Transformer(ast.NodeTransformer):
    """Wraps each import at the top of a file, conditions and `with` included, into a `try` of its own."""

    def visit_Import(self, node: ast.Import) -> ast.stmt:
        names = [alias.asname or alias.name.partition(".")[0] for alias in node.names]
        return _tolerate(node, ", ".join(alias.name for alias in node.names), names)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.stmt:
        if any(alias.name == "*" for alias in node.names):
            return node
        return _tolerate(node, node.module or ".", [alias.asname or alias.name for alias in node.names])

    def visit_Try(self, node: ast.Try) -> ast.stmt:
        return node  # the author handles its failures

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.stmt:
        return node  # fails when it is called

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.stmt:
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.stmt:
        return node


def _tolerate(node: ast.Import | ast.ImportFrom, imported: str, names: list[str]) -> ast.stmt:
    if imported.partition(".")[0] in (*_REQUIRED, "__future__"):
        return node
    call = f"{_HANDLER}(kernellab_error, {imported!r}, {names!r})"
    handler = ast.parse(f"try:\n    pass\nexcept Exception as kernellab_error:\n    {call}").body[0]
    assert isinstance(handler, ast.Try)
    handler.body = [node]
    for part in ast.walk(handler):
        if not isinstance(part, (ast.Import, ast.ImportFrom, ast.alias)):
            ast.copy_location(part, node)
    return handler
