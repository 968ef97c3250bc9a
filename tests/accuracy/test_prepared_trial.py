"""The reference and the peer that a trial is prepared with."""

import pytest
import torch

import kernellab as kl
from support.trying import check, doubling, examine


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


def divergence(**declaration):
    """The Kullback-Leibler divergence, which is NaN where a probability is negative; and two implementations of it."""

    @kl.op(args=dict(p=kl.tensor("... N"), t=kl.tensor("... N")), reduces="N", **declaration)
    def divergence(p, t):
        return (torch.xlogy(t, t) - t * p.log()).sum(-1).mean()

    divergence.impl("good")(lambda p, t: (t * (t.log() - p.log())).sum(-1).mean())
    divergence.impl("nonsense")(lambda p, t: (p + t).sum() * float("nan"))
    return divergence


def test_a_reference_without_finite_values_proves_nothing():
    for name in ("good", "nonsense"):
        outcome = check(divergence(), name)
        assert outcome.status == "unknown"
        assert "no finite value at such inputs" in outcome.reason
        assert "values=dict(p=kl.positive)" in outcome.reason


def test_where_values_are_declared_nonsense_is_wrong():
    declared = divergence(values=dict(p=kl.probabilities, t=kl.probabilities))
    assert check(declared, "good").status == "ok"
    assert check(declared, "nonsense").status == "wrong"


def test_special_values_do_not_hide_a_reference_that_has_no_finite_value():
    sizes = {"...": (6,), "N": 8}
    outcome = examine(divergence(), "nonsense", sizes, values={"t": "with NaN"})
    assert outcome.status == "unknown"


def test_a_gradient_without_finite_values_proves_nothing():
    @kl.op
    def steep(x):
        return x.detach() + (x - x.detach()).sqrt()

    steep.impl("other")(lambda x: x.detach() + (x - x.detach()).sqrt() * 2)
    outcome = examine(steep, "other", {"...": (6, 4)}, pass_name="backward")
    assert outcome.status == "unknown"
    assert "no finite value" in outcome.reason


@pytest.mark.filterwarnings("ignore:var")
@pytest.mark.parametrize("size", [0, 1])
def test_what_is_nan_because_of_its_size_is_still_compared(size):
    @kl.op(args=dict(x=kl.tensor("M N")), reduces="N")
    def variance(x):
        return x.var(-1)

    variance.impl("good")(lambda x: x.var(-1))
    variance.impl("biased")(lambda x: x.var(-1, correction=0).nan_to_num(0.0))
    assert examine(variance, "good", {"M": 3, "N": size}).status == "ok"
    assert examine(variance, "biased", {"M": 3, "N": size}).status == "wrong"


def test_what_is_nan_because_of_special_values_is_still_compared():
    @kl.op(args=dict(x=kl.tensor("N")), reduces="N")
    def total(x):
        return x.sum()

    total.impl("swallows")(lambda x: x.nansum())
    assert examine(total, "swallows", {"N": 64}, values={"x": "with NaN"}).status == "wrong"


def test_values_that_cannot_be_made_are_not_the_implementations_fault():
    @kl.op(values=dict(x=lambda shape, dtype, device, generator: torch.zeros(3)))
    def f(x):
        return x

    f.impl("good")(lambda x: x.clone())
    outcome = check(f, "good")
    assert outcome.status == "unknown"
    assert "values= of x returned torch.float32 of shape (3,)" in outcome.reason
