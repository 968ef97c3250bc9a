"""The reference and the peer that a trial is prepared with."""

import torch

import kernellab as kl
from support.trying import check, doubling


def test_a_wrong_torch_implementation_is_wrong_and_not_the_peer():
    op = doubling()
    op.impl("torch")(torch.zeros_like)
    op.impl("zeros-too")(torch.zeros_like)
    op.impl("good")(lambda x: x * 2)
    assert check(op, "torch").status == "wrong"
    assert check(op, "zeros-too").status == "wrong"
    assert check(op, "good").outcomes[0].peer.impl == "manual"


def test_a_peer_that_is_itself_far_off_sets_no_tolerance():
    @kl.op
    def cancels(x):
        return (x + 1e8) - 1e8  # right in float64, nothing left of it in float32

    cancels.impl("zeros")(torch.zeros_like)
    outcome = check(cancels, "zeros")
    assert outcome.status == "unknown"
    assert "the peer, manual, is itself" in outcome.reason


def test_a_torch_implementation_of_another_dtype_is_wrong_and_not_the_peer():
    op = doubling()
    op.impl("torch")(lambda x: (x * 2).long())
    op.impl("good")(lambda x: x * 2)
    assert check(op, "good").status == "ok"
    outcome = check(op, "torch")
    assert (outcome.status, outcome.reason) == ("wrong", "dtype int64, should be float32")


def test_a_reference_that_changes_its_input_sets_no_oracle():
    @kl.op
    def f(x):
        return x.mul_(2)

    f.impl("good")(lambda x: x * 2)
    assert "the reference changes its input" in check(f, "good").reason


def test_a_reference_that_fails_is_not_the_implementations_fault():
    @kl.op
    def f(x):
        raise RuntimeError("not today")

    f.impl("good")(lambda x: x)
    outcome = check(f, "good")
    assert outcome.status == "unknown"
    assert "cannot check: the reference failed: RuntimeError: not today" in outcome.reason
