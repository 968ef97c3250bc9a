"""Op files with imports that fail."""

from types import ModuleType

import pytest

from kernellab.base.failed_imports import NotLoaded, execute


def run(tmp_path, text):
    file = tmp_path / "imports.py"
    file.write_text(text)
    module, failures = ModuleType("imports"), []
    execute(file, module, failures)
    return module, failures


def test_a_failed_import_leaves_the_rest_of_the_file(tmp_path):
    module, failures = run(
        tmp_path,
        "from __future__ import annotations\nimport no_such.kernels as kernels, math\n"
        "from no_such import jit, Base\n\n@jit(level=3)\ndef kernel(x): return x\n\n"
        "class Function(Base): pass\n\ndef own(x): return x + 1\n\ndef use(x): return kernels.launch[(1,)](x)\n",
    )
    assert [type(failure) for failure in failures] == [ModuleNotFoundError] * 2
    assert module.own(1) == 2
    for call in (lambda: module.use(1), lambda: module.kernel(1)):
        with pytest.raises(NotLoaded, match="could not be imported: ModuleNotFoundError: No module named 'no_such'"):
            call()


def test_a_file_without_failures_is_executed_as_it_is(tmp_path):
    module, failures = run(tmp_path, "import math\nfrom os import path as p\nvalue = math.floor(2.5)\n")
    assert (failures, module.value, module.p.basename("a/b")) == ([], 2, "b")


@pytest.mark.parametrize("name", ["torch.no_such", "kernellab.no_such"])
def test_torch_and_kernellab_are_required(tmp_path, name):
    with pytest.raises(ModuleNotFoundError):
        run(tmp_path, f"import {name}\n")


def test_an_author_may_handle_a_failed_import(tmp_path):
    module, failures = run(tmp_path, "try:\n    import no_such\nexcept ImportError:\n    no_such = None\n")
    assert (failures, module.no_such) == ([], None)


def test_an_error_names_the_line_of_the_file(tmp_path):
    with pytest.raises(ZeroDivisionError) as error:
        run(tmp_path, "import no_such\n\n1 / 0\n")
    assert error.traceback[-1].lineno == 2  # counted from 0
