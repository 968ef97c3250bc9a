"""Inputs made from a seed."""

import pytest
import torch

import kernellab as kl
from kernellab.declaration.case import Case
from kernellab.declaration.case_request import CaseRequest
from kernellab.declaration.inputs import make_inputs
from kernellab.declaration.targets import Target, load
from support.klab import OPFILES


@pytest.fixture(scope="module")
def sketches():
    return load(Target("sketches", file=str(OPFILES / "sketches.py")))


def test_indices_lie_below_their_bound_with_sentinels_among_them(sketches):
    op = sketches["cross_entropy"]
    (case,) = op.expand(CaseRequest(), "cpu")
    inputs = make_inputs(op, case, seed=1)
    target = inputs["target"]
    assert inputs["logits"].shape == (64, 512)
    assert target.dtype == torch.int64
    assert int(target.max()) < 512
    assert int(target.min()) == -100
    assert (target == -100).float().mean() < 0.5


def test_an_optional_input_is_none_unless_its_option_is_set(sketches):
    op = sketches["attention"]
    (case,) = op.expand(CaseRequest(), "cpu")
    assert case.bias is False
    assert make_inputs(op, case, seed=0)["bias"] is None
    with_bias = case.with_(options={**case.options, "bias": True})
    assert make_inputs(op, with_bias, seed=0)["bias"].shape == (1, 2, 16, 16)


def test_the_same_seed_gives_the_same_inputs_and_another_seed_others():
    op = kl.ops.add
    case = Case({"...": (8,), "N": 8}, "float32")
    a, b, c = (make_inputs(op, case, seed) for seed in (1, 1, 2))
    assert torch.equal(a["x"], b["x"])
    assert not torch.equal(a["x"], c["x"])
    assert not torch.equal(a["x"], a["y"])


def test_an_op_whose_name_cannot_be_encoded_has_inputs():
    op = kl.op(name="\udc80", cases=kl.cases(shape=[(4,)]))(lambda x: x)
    (case,) = op.expand(CaseRequest(), "cpu")
    assert make_inputs(op, case, 0)["x"].shape == (4,)
