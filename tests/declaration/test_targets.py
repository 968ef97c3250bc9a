"""Targets: names, files, modules, and ops that other packages offer."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from kernellab.base.errors import UserError
from kernellab.declaration.targets import Target, load, resolve, shipped_names, source_hash
from support.klab import SRC


def test_the_three_kinds_of_target(tmp_path):
    assert resolve("gelu").module == "kernellab.ops.gelu"
    assert resolve("some.package:name") == Target("some.package:name", module="some.package", op="name")
    (tmp_path / "a.py").write_text("")
    assert resolve(f"{tmp_path}/a.py:f").op == "f"


def test_a_module_target_is_loaded():
    assert list(load(resolve("kernellab.ops.softmax:softmax"))) == ["softmax"]


@pytest.mark.parametrize("name", shipped_names())
def test_a_shipped_op_is_a_folder_that_declares_an_op_of_its_name(name):
    assert list(load(resolve(name))) == [name]


def test_the_shipped_ops_are_the_folders():
    folders = [path.name for path in (SRC / "kernellab" / "ops").iterdir() if (path / "__init__.py").is_file()]
    assert shipped_names() == sorted(folders) != []


def test_a_files_folder_is_searched_last(tmp_path):
    (tmp_path / "random.py").write_text("raise SystemExit('shadowed the standard library')")
    (tmp_path / "beside.py").write_text("FACTOR = 3")
    (tmp_path / "op.py").write_text(
        "import kernellab as kl, random\nimport beside\nrandom.random()\n@kl.op\ndef f(x): return x * beside.FACTOR\n"
    )
    assert list(load(resolve(str(tmp_path / "op.py")))) == ["f"]
    assert sys.path[0] != str(tmp_path)


def test_the_source_hash_follows_the_file_and_what_it_builds(tmp_path):
    (tmp_path / "op.py").write_text("import kernellab as kl\n@kl.op\ndef f(x): return x\n")
    op = load(resolve(str(tmp_path / "op.py")))["f"]
    before = source_hash(op)
    (tmp_path / "unrelated.py").write_text("x = 1")
    assert source_hash(op) == before
    (tmp_path / "kernel.cu").write_text("// new")
    assert source_hash(op) != before


@pytest.fixture(scope="module")
def offering(tmp_path_factory) -> Path:
    """A small real package that offers an op, installed by pip into a folder of its own."""
    root = tmp_path_factory.mktemp("offer")
    package = root / "src" / "otherops"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "things.py").write_text(
        "import torch, kernellab as kl\n"
        "@kl.op(cases=kl.cases(shape=[(8, 8)]))\n"
        "def negate(x):\n    'Minus x.'\n    return -x\n"
        "@negate.impl('torch')\ndef _(x): return torch.neg(x)\n"
    )
    (root / "pyproject.toml").write_text(
        '[build-system]\nrequires = ["setuptools"]\nbuild-backend = "setuptools.build_meta"\n'
        '[project]\nname = "otherops"\nversion = "1"\n'
        '[project.entry-points."kernellab.ops"]\nnegate = "otherops.things:negate"\n'
    )
    target = root / "installed"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--no-build-isolation"]
    subprocess.run([*pip, "--target", str(target), str(root)], check=True)
    return target


def test_other_packages_offer_ops_through_the_entry_point_group(offering, klab):
    path = f"{SRC}:{offering}"
    listed = {e["op"]: e for e in json.loads(klab("list", "--json", PYTHONPATH=path).out)}
    assert listed["negate"]["origin"] == "otherops.things:negate"
    assert set(listed["negate"]["impls"]) == {"manual", "compile", "torch"}
    check = klab("check", "negate", "--declared", "--impl", "torch", "--device", "cpu", "--json", PYTHONPATH=path)
    assert check.code == 0, check.err
    assert {r["op"] for r in check.record["results"]} == {"negate"}
    assert "did you mean negate" in klab("check", "negat", PYTHONPATH=path).err


def test_an_offered_name_that_is_taken_is_refused(monkeypatch):
    monkeypatch.setattr("kernellab.declaration.targets.offered_ops", lambda: {"gelu": "other.pkg:gelu"})
    with pytest.raises(UserError, match=r"two ops are named gelu.*other\.pkg:gelu"):
        resolve("gelu")


@pytest.mark.parametrize("exception", ["KeyboardInterrupt", "SystemExit(0)", "GeneratorExit", "BaseException('odd')"])
def test_an_exception_in_a_file_is_reported_as_the_files_own(tmp_path, exception):
    (tmp_path / "op.py").write_text(f"raise {exception}\n")
    with pytest.raises(UserError, match=r"op\.py could not be loaded") as refusal:
        load(resolve(str(tmp_path / "op.py")))
    assert exception.split("(")[0] in refusal.value.detail
