"""What ops there are, read from their source without executing any of it."""

from __future__ import annotations

import ast
import importlib.util
from dataclasses import dataclass, field
from pathlib import Path

from kernellab.base.errors import UserError
from kernellab.base.user_code import PACKAGE
from kernellab.declaration.op import Kind, kind_of
from kernellab.declaration.targets import offered, shipped_names


@dataclass
class Entry:
    """An op as its source shows it. `more` marks ways whose names are only known when the file runs."""

    name: str
    origin: str
    summary: str = ""
    ways: dict[str, Kind] = field(default_factory=dict)
    studies: set[str] = field(default_factory=set)
    more: bool = False
    problem: str = ""


def catalogue() -> list[Entry]:
    """Shipped ops, then those other packages offer."""
    entries = [_entry(name, "kernellab", PACKAGE / "ops" / name / "__init__.py", name) for name in shipped_names()]
    for name, value in sorted(offered().items()):
        module, _, op = value.partition(":")
        source = _source_of(module)
        if source is None:
            entries.append(Entry(name, value, problem=f"its package cannot be found: {module}"))
        else:
            entries.append(_entry(name, value, source, op))
    return entries


def _entry(name: str, origin: str, source: Path, op: str) -> Entry:
    found = parse(source, origin)
    if op not in found:
        return Entry(name, origin, problem=f"no @kl.op {op} in {source.name}")
    found[op].name = name
    return found[op]


def _source_of(module: str) -> Path | None:
    """The file of a module, without importing its parents: only the top package is looked up."""
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


def parse(source: Path, origin: str = "") -> dict[str, Entry]:
    """The ops a Python file declares with decorators, by the names of their functions."""
    try:
        tree = ast.parse(source.read_text())
    except (SyntaxError, OSError, UnicodeDecodeError) as error:
        return {source.stem: Entry(source.stem, origin, problem=f"cannot be read: {error}")}
    ops: dict[str, Entry] = {}  # by the name of the function, which is how the file speaks of them
    for node in ast.walk(tree):
        for decorator in node.decorator_list if isinstance(node, ast.FunctionDef) else ():
            call = decorator if isinstance(decorator, ast.Call) else None
            if isinstance(node, ast.FunctionDef) and _is_op(call.func if call else decorator):
                ops[node.name] = _declared(node, call, origin)
    for node in ast.walk(tree):
        # Both `@op.impl("name")` above a function and `op.impl("name")(function)`.
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "impl":
            _add_way(ops, node.func.value, node)
    return ops


def _is_op(target: ast.expr) -> bool:
    named = target.attr if isinstance(target, ast.Attribute) else getattr(target, "id", "")
    return named == "op"


def _declared(node: ast.FunctionDef, call: ast.Call | None, origin: str) -> Entry:
    keywords = {k.arg: k.value for k in call.keywords} if call else {}
    name = keywords.get("name")
    entry = Entry(str(name.value) if isinstance(name, ast.Constant) else node.name, origin)
    entry.summary = (ast.get_docstring(node) or "").split("\n")[0]
    manual = keywords.get("manual")
    if not (isinstance(manual, ast.Constant) and manual.value is False):
        entry.ways["manual"] = kind_of("manual")
    entry.ways["compile"] = kind_of("compile")
    return entry


def _add_way(ops: dict[str, Entry], owner: ast.expr, call: ast.Call) -> None:
    op = ops.get(owner.id) if isinstance(owner, ast.Name) else None
    if op is None or not call.args:
        return
    name = call.args[0]
    if not (isinstance(name, ast.Constant) and isinstance(name.value, str)):
        op.more = True
        return
    kind = next((k.value.value for k in call.keywords if k.arg == "kind" and isinstance(k.value, ast.Constant)), None)
    if any(k.arg == "study" and isinstance(k.value, ast.Constant) and k.value.value for k in call.keywords):
        op.studies.add(name.value)
    try:
        op.ways[name.value] = kind_of(name.value, kind if isinstance(kind, str) else None)
    except UserError:
        op.problem = f"way {name.value} has an unknown kind {kind!r}"
