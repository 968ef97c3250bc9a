"""Checking an implementation at a declared case and at its option values."""

import dataclasses

import pytest
import torch

import kernellab as kl
from kernellab.checking.declared_case import CaseChecker
from kernellab.declaration.case_request import CaseRequest
from kernellab.declaration.targets import Target, load
from support.klab import OPFILES
from support.trying import CPU, check, doubling


def test_a_right_implementation_is_right_and_its_peer_is_pytorchs_own():
    op = doubling()
    op.impl("torch")(lambda x: torch.add(x, x))
    op.impl("good")(lambda x: x * 2)
    outcome = check(op, "good")
    assert outcome.status == "ok"
    assert outcome.outcomes[0].peer.impl == "torch"
    assert outcome.outcomes[0].errors.max == 0.0


def test_every_option_value_is_checked_and_the_failing_one_named():
    @kl.op(options={"power": [2, 3]})
    def f(x, *, power=2):
        return x**power

    f.impl("square-only", supports=lambda c: c.power == 2 or "squares only")(lambda x, *, power: x * x)
    f.impl("always-square")(lambda x, *, power: x * x)
    outcome = check(f, "square-only")
    assert (outcome.status, outcome.trials) == ("ok", 1)
    assert outcome.outside[0].reason == "squares only"
    outcome = check(f, "always-square")
    assert outcome.status == "wrong"
    assert "(with power=3)" in outcome.reason


def test_a_case_outside_the_domain_is_skipped_with_the_reason():
    op = doubling()
    op.impl("narrow", supports=lambda c: "never")(lambda x: x)
    outcome = check(op, "narrow")
    assert (outcome.status, outcome.reason) == ("skipped", "never")


def test_a_supports_that_returns_none_is_reported():
    op = doubling()
    op.impl("forgets", supports=lambda c: None)(lambda x: x * 2)
    outcome = check(op, "forgets")
    assert (outcome.status, outcome.reason) == (
        "skipped",
        "its supports= returned a NoneType, neither True nor a reason",
    )


@pytest.mark.parametrize("name", ["cross_entropy", "attention"])
@pytest.mark.parametrize("impl", ["manual", "torch"])
def test_the_sketched_ops_are_right_with_every_option(name, impl):
    op = load(Target("sketches", file=str(OPFILES / "sketches.py")))[name]
    (case,) = op.expand(CaseRequest(), "cpu")
    outcome = CaseChecker(op, case, seed=0, device=CPU).check(op[impl])
    assert outcome.status == "ok", outcome.reason
    assert outcome.trials + len(outcome.outside) == len(op.option_variants(case))


@pytest.mark.parametrize("name", ["gelu", "softmax", "square", "add"])
def test_zeros_the_mean_and_a_permutation_are_wrong_at_a_large_case(name):
    op = getattr(kl.ops, name)
    fakes = {
        "zeros": torch.zeros_like,
        "mean": lambda y: torch.full_like(y, y.mean().item()),
        "permuted": lambda y: y.flatten()[torch.randperm(y.numel())].view_as(y),
    }
    (case,) = op.expand(CaseRequest(shapes=[(1025, 1024)], dtypes=["float32"]), "cpu")
    checker = CaseChecker(op, case, seed=0, device=CPU)
    assert checker.check(op["torch"]).status == "ok"
    for label, fake in fakes.items():
        impl = dataclasses.replace(op["torch"], name=label, fn=lambda *x, fake=fake, **o: fake(op["torch"](*x, **o)))
        assert checker.check(impl).status == "wrong", label


@pytest.mark.parametrize("name", ["python-unwritten", "triton-unwritten", "cpp-unwritten"])
def test_an_unwritten_output_is_wrong_although_its_memory_held_the_right_result(name):
    op = doubling()

    def computes_and_forgets(x):
        scratch = x * 2
        del scratch  # an allocator returns this memory
        return torch.empty_like(x)

    op.impl(name)(computes_and_forgets)
    (case,) = op.expand(CaseRequest(shapes=[(6, 5000)], dtypes=["bfloat16"]), "cpu")
    outcome = CaseChecker(op, case, seed=0, device=CPU).check(op[name])
    assert outcome.status == "wrong"
    assert "30000 of 30000 values" in outcome.reason


def test_poison_leaves_the_choice_of_algorithms_as_it_was():
    op = doubling()
    op.impl("good")(lambda x: torch.mul(x, 2, out=torch.empty_like(x)))
    assert check(op, "good").status == "ok"
    assert not torch.are_deterministic_algorithms_enabled()
