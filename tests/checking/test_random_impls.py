"""Implementations that draw their own random numbers are judged by their distribution, and marked so."""

import pytest
import torch

import kernellab as kl
from kernellab.base.errors import UserError
from kernellab.checking.call_variants import applies
from kernellab.checking.declared_case import CaseChecker
from kernellab.checking.distribution import CALLS
from kernellab.declaration.case import Case
from kernellab.trials import calls
from kernellab.trials.battery import impl_batteries
from kernellab.trials.selection import RANDOM_ELEMENTS, RANDOM_TRIALS, pair_with_impls
from support.trying import CPU, examine, plane


def dropout_op():
    @kl.op(
        args=dict(x=kl.tensor("... N")),
        options=dict(p=[0.2, 0.5], seed=[1, 2]),
        seed="seed",
        dtypes=["float32", "bfloat16"],
        cases=kl.cases(shape=[(512, 512)]),
    )
    def dropout(x, *, p=0.2, seed=0):
        kept = torch.rand(x.shape, generator=torch.Generator().manual_seed(seed)) >= p
        return x * kept / (1 - p)

    return dropout


class BackwardDrawsAgain(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, p):
        ctx.p = p
        return torch.nn.functional.dropout(x, p)

    @staticmethod
    def backward(ctx, upstream):
        return torch.nn.functional.dropout(upstream, ctx.p), None


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("pass_name", ["forward", "backward"])
def test_pytorchs_dropout_is_right_statistically(pass_name, dtype):
    op = dropout_op()
    op.impl("torch", random=True)(lambda x, p, seed: torch.nn.functional.dropout(x, p))
    outcome = examine(op, "torch", plane(64, 16), dtype=dtype, pass_name=pass_name)
    assert (outcome.status, outcome.draws, outcome.errors) == ("ok", CALLS, None), outcome.reason


@pytest.mark.parametrize(
    ("fn", "reason"),
    [
        (lambda x, p, seed: torch.nn.functional.dropout(x, p) * (1 - p), "mean of all elements"),
        (lambda x, p, seed: torch.nn.functional.dropout(x, p + 0.05), "of all elements"),
        (lambda x, p, seed: BackwardDrawsAgain.apply(x, p), "covariance of the result with the gradient of x"),
        (lambda x, p, seed: dropout_op()(x, p=p, seed=seed), "covariance of a call with the next"),
        (lambda x, p, seed: torch.nn.functional.dropout(torch.nn.functional.dropout(x, p), p), "of all elements"),
        (lambda x, p, seed: x * 1, "of all elements"),
    ],
    ids=["not scaled", "wrong p", "backward draws again", "always the same", "twice", "not at all"],
)
def test_mistakes_are_wrong(fn, reason):
    op = dropout_op()
    op.impl("mine", random=True)(fn)
    outcome = examine(op, "mine", plane(64, 16), pass_name="backward")
    assert outcome.status == "wrong"
    assert f"over {CALLS} calls" in outcome.reason
    assert reason in outcome.reason


def test_an_implementation_that_is_not_declared_random_is_compared_value_by_value():
    op = dropout_op()
    op.impl("torch")(lambda x, p, seed: torch.nn.functional.dropout(x, p))
    assert examine(op, "torch", plane(64, 16)).status == "wrong"


def test_a_random_implementation_is_not_the_peer_of_others():
    op = dropout_op()
    op.impl("torch", random=True)(lambda x, p, seed: torch.nn.functional.dropout(x, p))
    op.impl("same")(lambda x, p, seed: op.reference(x, p=p, seed=seed))
    outcome = examine(op, "same", plane(64, 16))
    assert (outcome.status, outcome.peer.impl) == ("ok", "manual")


def test_the_declared_case_is_checked_on_a_small_one_with_one_seed():
    op = dropout_op()
    op.impl("torch", random=True)(lambda x, p, seed: torch.nn.functional.dropout(x, p))
    case = Case({"...": (512,), "N": 512}, "float32", {"p": 0.2, "seed": 1}, device="cpu")
    outcome = CaseChecker(op, case, seed=0, device=CPU).check(op["torch"])
    assert (outcome.status, outcome.trials) == ("ok", 2)  # both values of p
    assert outcome.checked_at.dims["N"] * outcome.checked_at.dims["..."][0] <= RANDOM_ELEMENTS
    assert outcome.to_json()["draws"] == CALLS


def test_few_small_trials_with_plain_calls_are_chosen():
    op = dropout_op()
    op.impl("torch", random=True)(lambda x, p, seed: torch.nn.functional.dropout(x, p))
    impl = op["torch"]
    chosen = [trial for _, trial, _ in pair_with_impls(impl_batteries(op, [impl], "cpu"), [impl])]
    assert len(chosen) == RANDOM_TRIALS
    assert {"sizes", "layouts", "values", "gradients", "dtypes", "combinations"} <= {trial.kind for trial in chosen}
    assert applies(calls.PLAIN, impl, CPU)
    assert not applies(calls.TWICE, impl, CPU)
    large = examine(op, "torch", plane(2 * RANDOM_ELEMENTS, 1))
    assert (large.status, "compared up to" in large.reason) == ("outside", True)


def test_a_random_implementation_needs_an_op_with_a_seed():
    @kl.op
    def plain(x):
        return x

    with pytest.raises(UserError, match="does not say which of its options seeds"):
        plain.impl("torch", random=True)(lambda x: x)
    with pytest.raises(UserError, match="seed='sed' is not an option: did you mean seed"):
        kl.op(options=dict(seed=[1]), seed="sed")(dropout_op().reference)


FILE = """
import torch
import kernellab as kl


@kl.op(options=dict(seed=[1]), seed="seed", cases=kl.cases(shape=[(64, 64)], dtype=["float32"]))
def noisy(x, *, seed=0):
    return x + torch.randn(x.shape, generator=torch.Generator().manual_seed(seed))


@noisy.impl("own", random=True)
def _(x, *, seed=0):
    return x + torch.randn_like(x)


@noisy.impl("constant", random=True)
def _(x, *, seed=0):
    return x + torch.randn(x.shape, generator=torch.Generator().manual_seed(5))
"""


def test_the_verdict_says_that_it_is_statistical(klab, tmp_path):
    (tmp_path / "noisy.py").write_text(FILE)
    seen = klab("run", "noisy.py", "--impl", "own,constant", "--quick", "--device", "cpu")
    assert seen.code == 1, seen.out + seen.err
    assert "1 result right, of them 1 statistically: noisy own" in seen.out
    assert f"{CALLS} draws" in seen.out
    assert "its values are not compared while timing: it draws its own random numbers" in seen.out
    assert "drew from torch's global random generator" not in seen.out
    assert f"wrong: values: over {CALLS} calls, the standardised covariance of a call with the next is" in seen.out
