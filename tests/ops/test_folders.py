"""An op is a folder: all folders have the same files, and adding one adds an op."""

import json
import shutil
import subprocess
import sys

import pytest

import kernellab as kl
from kernellab.capture.meta_inputs import meta_inputs
from kernellab.declaration.case_request import CaseRequest
from kernellab.declaration.cost import cost_of_pass
from kernellab.declaration.targets import shipped_names
from support.klab import SRC, klab_env

# The source of each implementation.
FILES = {"triton": "triton.py", "cuda": "cuda.cu", "cpp": "cpp.cpp"}

HALVE = '''
"""Halve: x/2."""

import torch

import kernellab as kl


@kl.op(args=dict(x=kl.tensor("... N")), cases=kl.cases(shape=[(8, 8)]))
def halve(x):
    """x/2, elementwise."""
    return x / 2


@halve.impl("torch")
def _(x):
    return torch.div(x, 2)
'''


@pytest.mark.parametrize("name", shipped_names())
def test_an_op_folder_has_a_file_for_each_implementation(name):
    op = getattr(kl.ops, name)
    assert op.name == name
    assert len(op.impls) >= 2
    assert op.doc
    folder = op.file.parent
    for impl, file in FILES.items():
        assert (folder / file).is_file() == (impl in op.impls), f"{file} and the implementation {impl}"


@pytest.mark.parametrize("name", shipped_names())
def test_the_cost_of_both_passes_is_known_for_every_option(name):
    op = getattr(kl.ops, name)
    case = op.expand(CaseRequest(quick=True), "cuda")[0]
    for variant in op.option_variants(case):
        for pass_name in ("forward", "backward"):
            cost = cost_of_pass(op, pass_name, meta_inputs(op, variant), variant)
            assert cost["bytes_read"] > 0


@pytest.mark.parametrize("name", shipped_names())
def test_implementations_are_declared_in_one_order(name):
    order = ["manual", "compile", "torch", *FILES]
    impls = [impl for impl in getattr(kl.ops, name).impls if impl in order]
    assert impls == sorted(impls, key=order.index)


def copy_with_op(tmp_path, name, text):
    """A copy of the source folder with a further op."""
    source = tmp_path / "src"
    shutil.copytree(SRC, source, ignore=shutil.ignore_patterns("__pycache__"))
    folder = source / "kernellab" / "ops" / name
    folder.mkdir()
    (folder / "__init__.py").write_text(text)
    return source


def test_an_op_of_another_name_than_its_folder_is_refused(tmp_path):
    source = copy_with_op(tmp_path, "half", HALVE)
    code = [sys.executable, "-c", "import kernellab.ops"]
    process = subprocess.run(code, env=klab_env(PYTHONPATH=str(source)), capture_output=True, text=True)
    assert "kernellab/ops/half/__init__.py declares no op half: name the op as its folder" in process.stderr


def test_an_op_is_added_by_adding_a_folder(klab, tmp_path):
    source = copy_with_op(tmp_path, "halve", HALVE)
    listed = {entry["op"] for entry in json.loads(klab("list", "--json", PYTHONPATH=str(source)).out)}
    assert listed == {*shipped_names(), "halve"}
    seen = klab("check", "halve", "--declared", "--impl", "torch", "--device", "cpu", PYTHONPATH=str(source))
    assert seen.code == 0, seen.err
