"""Checking one way at one case, without processes."""

import pytest
import torch

import kernellab as kl
from conftest import OPFILES
from kernellab.case import Case, CaseRequest
from kernellab.checking.check import Checker
from kernellab.checking.interpreter import to_bfloat16_bits
from kernellab.checking.standin import largest, standin
from kernellab.targets import Target, load

CPU = torch.device("cpu")


def check(op, name, case=None, **more):
    case = case or Case({d: (6,) if d == "..." else 8 for d in op.dims}, "float32", dict.fromkeys(op.all_options()))
    first = {k: v[0] for k, v in op.all_options().items()}
    return Checker(op, case.with_(options={**first}), seed=0, device=CPU, **more).check(op[name])


@pytest.fixture
def op():
    @kl.op
    def double(x):
        return x + x

    return double


def test_a_right_way_is_right_and_its_error_is_beside_pytorchs(op):
    op.impl("torch")(lambda x: torch.add(x, x))
    op.impl("good")(lambda x: x * 2)
    seen = check(op, "good")
    assert seen["status"] == "ok"
    assert seen["peer"]["impl"] == "torch"
    assert seen["errors"]["max"] == 0.0


@pytest.mark.parametrize(
    ("fn", "status", "reason"),
    [
        (lambda x: (2 * x)[:-1], "wrong", "shape 5, should be 6"),
        (lambda x: (2 * x).double(), "wrong", "dtype float64, should be float32"),
        (lambda x: (2 * x).to("meta"), "wrong", "device meta, should be cpu"),
        (lambda x: x * 2.001, "wrong", "values: error"),
        (torch.zeros_like, "wrong", "values: error"),
        (lambda x: x * float("nan"), "wrong", "NaN or inf"),
        (lambda x: x.mul_(2).clone(), "wrong", "changed its input x without declaring"),
        (lambda x: None, "wrong", "returned None"),
        (lambda x: "tensor", "wrong", "returned a str"),
        (lambda x: (x * 2, x), "wrong", "returned 2 tensors, should be 1"),
        (lambda x: torch.empty(1 << 50), "oom", "allocate"),
        (lambda x: 1 / 0, "error", "ZeroDivisionError: division by zero (test_check.py:"),
        (lambda x, y: x, "error", "missing 1 required positional argument"),
    ],
)
def test_what_can_be_wrong_is_named(op, fn, status, reason):
    op.impl("suspect")(fn)
    seen = check(op, "suspect")
    assert seen["status"] == status
    assert reason in seen["reason"]


def test_a_declared_mutation_is_no_fault_and_the_next_way_gets_clean_inputs(op):
    op.impl("in-place", mutates=["x"])(lambda x: x.mul_(2))
    op.impl("good")(lambda x: x * 2)
    checker = Checker(op, Case({"...": (8,)}, "float32"), seed=0, device=CPU)
    assert checker.check(op["in-place"])["status"] == "ok"
    assert checker.check(op["good"])["status"] == "ok"


def test_a_wrong_pytorch_way_is_wrong_and_no_yardstick(op):
    op.impl("torch")(torch.zeros_like)
    op.impl("zeros-too")(torch.zeros_like)
    op.impl("good")(lambda x: x * 2)
    assert check(op, "torch")["status"] == "wrong"
    assert check(op, "zeros-too")["status"] == "wrong"
    assert check(op, "good")["peer"]["impl"] == "manual"


def test_strides_are_reported_in_others_ops_and_required_in_shipped_ones(op):
    case = Case({"...": (4, 6)}, "float32")
    op.impl("transposed")(lambda x: (x.t() * 2).contiguous().t())
    seen = Checker(op, case, seed=0, device=CPU).check(op["transposed"])
    assert seen["status"] == "ok"
    assert "strides (1, 4), manual's are (6, 1)" in seen["notes"][0]
    op.file = kl.ops.gelu.file
    seen = Checker(op, case, seed=0, device=CPU).check(op["transposed"])
    assert (seen["status"], "strides (" in seen["reason"]) == ("wrong", True)


def test_every_option_is_tried_and_the_bad_one_named():
    @kl.op(options={"power": [2, 3]})
    def f(x, *, power=2):
        return x**power

    f.impl("square-only", supports=lambda c: c.power == 2 or "squares only")(lambda x, *, power: x * x)
    f.impl("always-square")(lambda x, *, power: x * x)
    seen = check(f, "square-only")
    assert (seen["status"], seen["trials"]) == ("ok", 1)
    assert seen["outside"][0]["reason"] == "squares only"
    seen = check(f, "always-square")
    assert seen["status"] == "wrong"
    assert "(with power=3)" in seen["reason"]


def test_a_case_outside_a_ways_domain_is_skipped_with_its_reason(op):
    op.impl("narrow", supports=lambda c: "never")(lambda x: x)
    seen = check(op, "narrow")
    assert (seen["status"], seen["reason"]) == ("skipped", "never")


def test_a_reference_that_fails_is_nobodys_fault():
    @kl.op
    def f(x):
        raise RuntimeError("not today")

    f.impl("good")(lambda x: x)
    seen = check(f, "good")
    assert seen["status"] == "unknown"
    assert "cannot check: the reference failed: RuntimeError: not today" in seen["reason"]


@pytest.mark.parametrize("name", ["cross_entropy", "attention"])
@pytest.mark.parametrize("impl", ["manual", "torch"])
def test_the_sketched_ops_check_with_every_option(name, impl):
    op = load(Target("sketches", file=str(OPFILES / "sketches.py")))[name]
    (case,) = op.expand(CaseRequest(), "cpu")
    seen = Checker(op, case, seed=0, device=CPU).check(op[impl])
    assert seen["status"] == "ok", seen["reason"]
    assert seen["trials"] + len(seen["outside"]) == len(op.variants(case))


def test_stand_ins_shrink_what_repeats_before_what_matters():
    softmax = kl.ops.softmax
    case = Case({"...": (4096,), "N": 16384}, "float32")
    small = standin(softmax, case, 65_536)
    assert dict(small.dims) == {"...": (4,), "N": 16384}
    assert largest(softmax, standin(softmax, case.with_(dims={"...": (9,), "N": 1 << 20}), 65_536)) <= 65_536
    matmul = kl.ops.matmul
    square = Case({"M": 1024, "K": 1024, "N": 1024}, "float32")
    assert dict(standin(matmul, square, 65_536).dims) == {"M": 256, "K": 256, "N": 256}


def test_bfloat16_is_rounded_to_nearest_even():
    x = torch.cat([torch.randn(10_000), torch.tensor([0.0, -0.0, float("inf"), -float("inf"), 3.4e38, 1e-40])])
    bits = torch.from_numpy(to_bfloat16_bits(x.numpy()).view("int16"))
    assert torch.equal(bits.view(torch.bfloat16), x.bfloat16())
    assert torch.isnan(
        torch.from_numpy(to_bfloat16_bits(torch.tensor([float("nan")]).numpy()).view("int16")).view(torch.bfloat16)
    ).all()
