"""The ops that can be named, read from their source without executing it."""

from __future__ import annotations

import ast
import importlib.util
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from kernellab.base.errors import UserError
from kernellab.base.user_code import PACKAGE
from kernellab.declaration.kinds import Kind, kind_of
from kernellab.declaration.targets import offered_ops, shipped_names


@dataclass
class CatalogueEntry:
    """An op as its source shows it. `flaws`: what is wrong on purpose, by implementation. `computed_names`: some
    implementations are named only when the file runs."""

    name: str
    origin: str
    summary: str = ""
    impls: dict[str, Kind] = field(default_factory=dict)
    studies: set[str] = field(default_factory=set)
    flaws: dict[str, str] = field(default_factory=dict)
    computed_names: bool = False
    problem: str = ""


def catalogue() -> list[CatalogueEntry]:
    """The shipped ops, then those that other packages offer."""
    entries = [_read_shipped(name) for name in shipped_names()]
    for name, value in sorted(offered_ops().items()):
        module, _, op = value.partition(":")
        source = _source_of(module)
        if source is None:
            entries.append(CatalogueEntry(name, value, problem=f"its package cannot be found: {module}"))
        else:
            entries.append(_read(name, value, source, op))
    return entries


def _read(name: str, origin: str, source: Path, op: str) -> CatalogueEntry:
    entries = parse(source, origin)
    if op not in entries:
        return CatalogueEntry(name, origin, problem=f"no @kl.op {op} in {source.name}")
    entries[op].name = name
    return entries[op]


def _read_shipped(name: str) -> CatalogueEntry:
    """A shipped op, with the implementations that its folder's studies.py adds."""
    source = _shipped_source(name)
    entry = _read(name, "kernellab", source, name)
    studies = source.with_name("studies.py")
    if studies.is_file():
        tree = ast.parse(studies.read_text())
        for _, call in _impl_calls(tree):
            _add_impl(entry, call, _constants(tree))
    return entry


def _source_of(module: str) -> Path | None:
    """The file of a module. Only its top package is looked up: finding a submodule would import its parents."""
    top, *rest = module.split(".")
    try:
        spec = importlib.util.find_spec(top)
    except (ImportError, ValueError):
        return None
    if spec is None or spec.origin is None:
        return None
    path = Path(spec.origin)
    for part in rest:
        folder = path.parent / part
        path = folder / "__init__.py" if folder.is_dir() else folder.with_suffix(".py")
    return path if path.is_file() else None


def parse(source: Path, origin: str = "") -> dict[str, CatalogueEntry]:
    """The ops that a Python file declares with decorators, by the names of their functions, and the shipped ops that it
    adds implementations to, by the names it has for them."""
    try:
        tree = ast.parse(source.read_text())
    except (SyntaxError, OSError, UnicodeDecodeError) as error:
        return {source.stem: CatalogueEntry(source.stem, origin, problem=f"cannot be read: {error}")}
    entries: dict[str, CatalogueEntry] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            for decorator in node.decorator_list:
                call = decorator if isinstance(decorator, ast.Call) else None
                if _is_op(call.func if call else decorator):
                    entries[node.name] = _parse_op(node, call, origin)
    shipped = _names_of_shipped_ops(tree)
    for name, call in _impl_calls(tree):
        if name in shipped and name not in entries:
            entries[name] = _read_shipped(shipped[name])
        if name in entries:
            _add_impl(entries[name], call, _constants(tree))
    return entries


def _impl_calls(tree: ast.Module) -> Iterator[tuple[str, ast.Call]]:
    """The name of an op, and a call that adds an implementation to it: both `@op.impl("name")` above a function and
    `op.impl("name")(function)`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "impl":
            owner = node.func.value
            if node.args:
                yield owner.id if isinstance(owner, ast.Name) else _shipped_op(owner), node


def _constants(tree: ast.Module) -> dict[str, str]:
    """The strings that a file gives names to."""
    return {
        target.id: node.value.value
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        for target in node.targets
        if isinstance(target, ast.Name)
    }


def _names_of_shipped_ops(tree: ast.Module) -> dict[str, str]:
    """The names that a file has for shipped ops: `from kernellab.ops import softmax`, `op = kl.ops.softmax`."""
    nodes = list(ast.walk(tree))
    mentioned = {_shipped_op(node) for node in nodes}
    names = {name: name for name in shipped_names() if name in mentioned}
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and node.module == "kernellab.ops":
            names |= {alias.asname or alias.name: alias.name for alias in node.names}
        elif isinstance(node, ast.Assign) and _shipped_op(node.value):
            names |= {target.id: _shipped_op(node.value) for target in node.targets if isinstance(target, ast.Name)}
    return {name: op for name, op in names.items() if _shipped_source(op).is_file()}


def _shipped_op(node: ast.AST) -> str:
    """`softmax` of `kl.ops.softmax`; empty for anything else."""
    if not isinstance(node, ast.Attribute) or not isinstance(node.value, (ast.Attribute, ast.Name)):
        return ""
    package = node.value.attr if isinstance(node.value, ast.Attribute) else node.value.id
    return node.attr if package == "ops" else ""


def _shipped_source(name: str) -> Path:
    return PACKAGE / "ops" / name / "__init__.py"


def _is_op(decorator: ast.expr) -> bool:
    """Whether a decorator is `kl.op` or `op`."""
    name = decorator.attr if isinstance(decorator, ast.Attribute) else getattr(decorator, "id", "")
    return name == "op"


def _parse_op(node: ast.FunctionDef, call: ast.Call | None, origin: str) -> CatalogueEntry:
    keywords = {k.arg: k.value for k in call.keywords} if call else {}
    name = keywords.get("name")
    entry = CatalogueEntry(str(name.value) if isinstance(name, ast.Constant) else node.name, origin)
    entry.summary = (ast.get_docstring(node) or "").split("\n")[0]
    manual = keywords.get("manual")
    if not (isinstance(manual, ast.Constant) and manual.value is False):
        entry.impls["manual"] = kind_of("manual")
    entry.impls["compile"] = kind_of("compile")
    return entry


def _add_impl(entry: CatalogueEntry, call: ast.Call, constants: Mapping[str, str]) -> None:
    name = call.args[0]
    if not (isinstance(name, ast.Constant) and isinstance(name.value, str)):
        entry.computed_names = True
        return
    keywords: dict[str | None, object] = {}
    for keyword in call.keywords:
        if isinstance(keyword.value, ast.Constant):
            keywords[keyword.arg] = keyword.value.value
        elif isinstance(keyword.value, ast.Name):
            keywords[keyword.arg] = constants.get(keyword.value.id)
    kind = keywords.get("kind")
    if keywords.get("study"):
        entry.studies.add(name.value)
    if keywords.get("flaw"):
        entry.flaws[name.value] = str(keywords["flaw"])
    try:
        entry.impls[name.value] = kind_of(name.value, kind if isinstance(kind, str) else None)
    except UserError:
        entry.problem = f"implementation {name.value} has an unknown kind {kind!r}"
