"""Collecting the ops of a file: those it declares and those of others that it extends."""

import pytest
import torch

import kernellab as kl
from kernellab.base.errors import UserError
from kernellab.declaration.targets import load, resolve, source_hash

EXTENSION = """
import torch, kernellab as kl

@kl.ops.softmax.impl("mine")
def _(x):
    return torch.softmax(x, -1)
"""


def write(folder, text, name="mine.py"):
    (folder / name).write_text(text)
    return resolve(str(folder / name))


def test_a_file_extends_a_shipped_op_for_itself_alone(tmp_path):
    shipped = dict(kl.ops.softmax.impls)
    first = load(write(tmp_path, EXTENSION))
    assert list(first) == ["softmax"]
    op = first["softmax"]
    assert list(op.impls) == [*shipped, "mine"]
    assert all(impl.op is op for impl in op.impls.values())
    assert op.extension == tmp_path / "mine.py"
    assert kl.ops.softmax.impls == shipped, "the shipped op is as before"
    assert kl.ops.softmax.extension is None
    assert list(load(resolve("softmax"))["softmax"].impls) == list(shipped)
    again = load(write(tmp_path, EXTENSION, "other.py"))["softmax"]
    assert "mine" in again.impls, "another file may use the same name"
    x = torch.randn(2, 3)
    assert torch.equal(op["mine"](x), torch.softmax(x, -1))


def test_a_file_has_its_own_ops_and_those_it_extends_but_not_those_it_uses(tmp_path):
    text = EXTENSION + "\n@kl.op\ndef twice(x): return kl.ops.gelu(x) * 2\n"
    assert set(load(write(tmp_path, text))) == {"softmax", "twice"}


def test_shipped_ops_are_not_collected_when_a_file_imports_them_first(tmp_path, klab):
    target = write(tmp_path, EXTENSION)
    checked = klab("check", target.file, "--declared", "--impl", "mine,torch", "--shape", "4x8", "--json")
    assert checked.code == 0, checked.err
    assert [(r["op"], r["impl"]) for r in checked.record["results"]] == [("softmax", "torch"), ("softmax", "mine")]


def test_a_shipped_op_is_restored_when_the_file_fails(tmp_path):
    shipped = dict(kl.ops.softmax.impls)
    with pytest.raises(UserError, match="could not be loaded"):
        load(write(tmp_path, EXTENSION + "\n1 / 0\n"))
    assert kl.ops.softmax.impls == shipped


def test_an_own_op_with_the_name_of_an_extended_one_is_refused(tmp_path):
    text = EXTENSION + "\n@kl.op\ndef softmax(x): return x\n"
    with pytest.raises(UserError, match="two ops are named softmax"):
        load(write(tmp_path, text))


def test_the_source_hash_of_an_extended_op_follows_the_file_that_extends_it(tmp_path):
    before = source_hash(load(write(tmp_path, EXTENSION))["softmax"])
    assert before != source_hash(kl.ops.softmax)
    after = source_hash(load(write(tmp_path, EXTENSION + "# changed\n"))["softmax"])
    assert after != before


def test_outside_a_file_an_op_is_extended_in_place():
    @kl.op
    def f(x):
        return x

    f.impl("mine")(lambda x: x.clone())
    assert "mine" in f.impls
