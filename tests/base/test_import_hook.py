"""Functions called when a module is imported."""

import importlib
import importlib.util
import sys

import pytest

from kernellab.base.import_hook import call_after_import


@pytest.fixture(autouse=True)
def _own_modules(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "modules", sys.modules.copy())


@pytest.fixture
def write(tmp_path):
    def write_module(text, name="late_module"):
        (tmp_path / f"{name}.py").write_text(text)
        importlib.invalidate_caches()

    return write_module


def test_the_action_runs_after_the_modules_code_and_leaves_the_module_unchanged(write):
    before, values = list(sys.meta_path), []
    call_after_import("late_module", lambda module: values.append(module.value))
    write("import json\nvalue = 3\n")
    assert values == []
    module = importlib.import_module("late_module")
    assert values == [3]
    assert "exec_module" not in vars(module.__spec__.loader)
    assert sys.meta_path == before


def test_a_module_that_is_already_imported_gets_its_action_at_once(write):
    write("value = 4\n")
    importlib.import_module("late_module")
    values = []
    call_after_import("late_module", lambda module: values.append(module.value))
    assert values == [4]


def test_a_failed_import_does_not_count(write):
    values = []
    call_after_import("late_module", lambda module: values.append(module.value))
    with pytest.raises(ImportError):
        importlib.import_module("late_module")  # the file does not exist yet
    write("1 / 0\n")
    with pytest.raises(ZeroDivisionError):
        importlib.import_module("late_module")
    assert values == []
    write("value = 'a longer text, so that no cached bytecode fits'\n")
    importlib.import_module("late_module")
    assert len(values) == 1


def test_a_cancelled_action_does_not_run_and_others_of_the_module_do(write):
    before, values = list(sys.meta_path), []
    cancel = call_after_import("late_module", lambda _: values.append("cancelled"))
    call_after_import("late_module", lambda _: values.append("kept"))
    cancel()
    cancel()  # a second time changes nothing
    write("")
    importlib.import_module("late_module")
    assert values == ["kept"]
    call_after_import("never_imported", print)()
    assert sys.meta_path == before


def test_looking_a_module_up_is_not_importing_it(write):
    values = []
    call_after_import("late_module", lambda module: values.append(module.__name__))
    write("")
    assert importlib.util.find_spec("late_module") is not None
    assert values == []
    importlib.import_module("late_module")
    assert values == ["late_module"]


def test_a_finder_that_asks_all_finders_does_not_recurse_for_ever(write, monkeypatch):
    class AsksAll:
        def find_spec(self, name, path=None, target=None):
            others = (finder.find_spec(name, path, target) for finder in sys.meta_path if finder is not self)
            return next(filter(None, others), None)

    monkeypatch.setattr(sys, "meta_path", [AsksAll(), *sys.meta_path])
    values = []
    call_after_import("late_module", lambda _: values.append(1))
    write("")
    importlib.import_module("late_module")
    assert values == [1]
