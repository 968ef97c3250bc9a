"""Scripts of published figures find what they import: most of them need a GPU, so that no other test runs them."""

import ast
import importlib

import pytest

from support.klab import HERE

SCRIPTS = sorted((HERE.parent / "benchmarks").rglob("*.py"))


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_everything_a_script_imports_of_kernellab_exists(script):
    for node in ast.walk(ast.parse(script.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("kernellab"):
            module = importlib.import_module(node.module)
            for alias in node.names:
                if not hasattr(module, alias.name):
                    importlib.import_module(f"{node.module}.{alias.name}")
