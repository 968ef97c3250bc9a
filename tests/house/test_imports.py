"""Imports point one way, and the parent stays light. The directions follow from the packages themselves."""

import subprocess
import sys
from graphlib import CycleError, TopologicalSorter

import pytest

import house
from support.klab import klab_env

PARENT = (
    "cli",
    "comparison",
    "remeasuring",
    "running/parent",
    "reporting",
    "record",
    "explaining",
    "findings",
    "gpumodel",
    "traces",
    "analysis",
)
# a module each for a verb, a rule, an op, a peer library, a timer
PLUGINS = ("cli/verbs", "explaining/rules", "ops", "peers", "timing/timers")
MOST_MODULES = 16


def cycle_in(graph):
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_no_module_imports_itself_through_others():
    assert cycle_in(house.module_graph()) == []


def test_no_package_imports_itself_through_others():
    assert cycle_in(house.package_graph()) == []


def test_a_cycle_would_be_found():
    assert cycle_in({"a": {"b"}, "b": {"a"}}) != []


def test_the_parent_imports_neither_torch_nor_ops():
    names = sorted(name for name in house.modules() if house.package_of(name).startswith(PARENT))
    assert len(names) > 50
    code = (
        f"import importlib, sys\nfor name in {names!r}: importlib.import_module(name)\n"
        "assert not {'torch', 'triton', 'kernellab.ops'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env=klab_env())


@pytest.mark.parametrize("package", sorted(house.package_graph()))
def test_a_package_says_what_it_is_for(package):
    assert len(house.purpose(package)) > 20


@pytest.mark.parametrize("package", sorted(set(house.package_graph()) - set(PLUGINS)))
def test_a_package_holds_one_idea_in_few_modules(package):
    folder = house.PACKAGE if package == "kernellab" else house.PACKAGE / package
    assert len([path for path in folder.glob("*.py") if path.name != "__init__.py"]) <= MOST_MODULES


@pytest.mark.parametrize("package", sorted(set(house.package_graph()) - {"kernellab"}))
def test_no_package_is_named_like_a_public_function(package):
    import kernellab

    assert package not in kernellab._FUNCTIONS


def test_no_module_is_too_long_to_read():
    for path in house.PACKAGE.rglob("*"):
        if path.suffix in (".py", ".cu", ".cuh", ".cpp", ".hpp"):
            assert len(path.read_text().splitlines()) <= 500, path.name
