"""Inputs made from a seed."""

import pytest
import torch

import kernellab as kl
from kernellab.declaration.case import Case
from kernellab.declaration.case_request import CaseRequest
from kernellab.declaration.inputs import InputsFailed, make_inputs
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


def test_inputs_have_the_values_and_dtypes_that_are_declared():
    @kl.op(
        args=dict(
            x=kl.tensor("M N"), w=kl.tensor("1 N", dtype="float32", values=kl.positive), keep=kl.mask("M N"),
            codes=kl.tensor("N", dtype="int8", values=codes),
        ),
        values=dict(x=kl.probabilities),
    )  # fmt: skip
    def f(x, w, keep, codes):
        return x

    inputs = make_inputs(f, Case({"M": 3, "N": 50}, "bfloat16"), seed=0)
    assert [t.dtype for t in inputs.values()] == [torch.bfloat16, torch.float32, torch.bool, torch.int8]
    assert bool((inputs["w"] > 0).all())
    assert torch.allclose(inputs["x"].double().sum(-1), torch.ones(3).double(), atol=1e-2)
    assert bool(inputs["keep"][:, 0].all())
    assert 0 < int(inputs["keep"].sum()) < 150
    assert int(inputs["codes"].min()) >= -3


def codes(shape, dtype, device, generator):
    return torch.randint(-3, 4, shape, generator=generator, device=device).to(dtype)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (lambda *_: 1 / 0, "values= of x failed: ZeroDivisionError"),
        (lambda *_: [1.0], "values= of x returned a list, not a tensor"),
        (lambda shape, *_: torch.zeros(shape, dtype=torch.int64), "returned torch.int64 of shape (4,)"),
        (lambda *_: torch.zeros(5), "returned torch.float32 of shape (5,) on cpu, not torch.float32 of shape (4,)"),
    ],
)
def test_values_that_are_not_what_was_asked_for_are_explained(values, message):
    @kl.op(values=dict(x=values))
    def f(x):
        return x

    with pytest.raises(InputsFailed) as failure:
        make_inputs(f, Case({"...": (4,)}, "float32"), seed=0)
    assert message in str(failure.value)
