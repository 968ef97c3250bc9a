"""Imports point one way, and the parent stays light. The directions follow from the packages themselves."""

from __future__ import annotations

import ast
import subprocess
import sys
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from support.klab import SRC, klab_env

PACKAGE = SRC / "kernellab"
# Op files use kernellab as any user's file does: through its public API.
OP_FILES = ("ops", "doctor/aa_op.py")


def name_of(path: Path) -> str:
    parts = path.relative_to(SRC).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {name_of(path): path for path in PACKAGE.rglob("*.py")}


def package_of(module: str) -> str:
    """The folder of a module, as in `kernellab.running.parent`; all of the ops are one."""
    folder = MODULES[module].parent.relative_to(SRC).parts
    return ".".join(folder[:2] if folder[1:2] == ("ops",) else folder)


def imports_of(module: str) -> set[str]:
    """Modules of kernellab that a module imports, inside functions too."""
    imported = set()
    for node in ast.walk(ast.parse(MODULES[module].read_text())):
        if isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            imported |= {name if name in MODULES else node.module for name in names}
    public = {"kernellab"} if str(MODULES[module].relative_to(PACKAGE)).startswith(OP_FILES) else set()
    return (imported & MODULES.keys()) - {module} - public


IMPORTS = {module: imports_of(module) for module in MODULES}


def cycle_in(graph: dict[str, set[str]]) -> list[str]:
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_no_module_imports_itself_through_others():
    assert cycle_in(IMPORTS) == []


def test_no_package_imports_itself_through_others():
    graph: dict[str, set[str]] = {}
    for module, imported in IMPORTS.items():
        package = package_of(module)
        graph.setdefault(package, set()).update({package_of(name) for name in imported} - {package})
    assert cycle_in(graph) == []


PARENT = (
    "kernellab.cli",
    "kernellab.running.parent",
    "kernellab.reporting",
    "kernellab.record",
    "kernellab.explaining",
)


def test_the_parent_imports_neither_torch_nor_ops():
    modules = sorted(name for name in MODULES if name.startswith(PARENT))
    code = (
        f"import importlib, sys\nfor name in {modules!r}: importlib.import_module(name)\n"
        "assert not {'torch', 'triton', 'kernellab.ops'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env=klab_env())


@pytest.mark.parametrize("package", sorted({package_of(name) for name in MODULES}))
def test_a_package_says_what_it_is_for(package):
    assert ast.get_docstring(ast.parse(MODULES[package].read_text()))


def test_no_module_is_too_long_to_read():
    for path in PACKAGE.rglob("*"):
        if path.suffix in (".py", ".cu", ".cuh", ".cpp", ".hpp"):
            assert len(path.read_text().splitlines()) <= 500, path.name
