"""`kl.check` in an author's own tests."""

import pytest
import torch

import kernellab as kl
from kernellab.api.check import run
from kernellab.base.errors import UserError
from support.trying import CPU


def test_a_right_function_passes_and_the_failures_of_a_wrong_one_are_named():
    (summary,) = summaries = kl.check(lambda x: x * x, lambda x: x.square(), quick=True)
    assert summary["status"] == "ok"
    assert f">{summary['tried']}</td>" in summaries._repr_html_()

    def forgets_strides(x):
        return torch.as_strided(x, x.shape, torch.empty(x.shape).stride()) ** 2 if x.numel() else x**2

    with pytest.raises(AssertionError) as raised:
        kl.check(forgets_strides, lambda x: x * x, quick=True)
    assert "trials failed" in str(raised.value)
    assert "layouts" in str(raised.value)


@pytest.mark.parametrize(
    ("request_check", "message"),
    [
        (lambda: kl.check(lambda x: x * x, torch.square), "its reference, square, is not a plain Python function"),
        (
            lambda: kl.check(lambda x: x, lambda x: x, redcues="N"),
            "op lambda: redcues= cannot be declared: did you mean reduces",
        ),
        (lambda: kl.check(lambda x: x, lambda x: x, dtypes="float32"), r"write dtypes=\['float32'\]"),
        (lambda: kl.check(lambda x: x), "needs the reference as its second argument"),
        (lambda: kl.check(3, lambda x: x), "checks a function against its reference, or an op"),
        (lambda: kl.check(kl.ops.square, lambda x: x), "takes an op, or a function and its reference"),
        (lambda: kl.check(kl.ops.square, reduces="N"), r"reduces= is declared with the op, in kl.op\(reduces=…\)"),
        (lambda: kl.check(kl.ops.square, dtypes="float32"), r"write dtypes=\['float32'\]"),
        (
            lambda: kl.check(kl.ops.square, impl=["manual", "tosch"]),
            "has no implementation 'tosch': did you mean torch",
        ),
        (lambda: kl.check(kl.ops.square, impl="zzz"), "op square has no implementation 'zzz': known: compile, cpp"),
    ],
)
def test_a_request_that_cannot_be_met_is_refused_with_a_sentence(request_check, message):
    with pytest.raises(UserError, match=message):
        request_check()


def test_an_op_is_checked_and_what_cannot_run_here_is_named():
    names = {summary["impl"] for summary in kl.check(kl.ops.square, impl=["torch", "manual"], quick=True)}
    assert names == {"torch", "manual"}
    with pytest.raises(UserError, match="needs a GPU"):
        kl.check(kl.ops.square, impl="cuda", device="cpu")


def failing(x):
    raise ValueError("no such thing")


@pytest.mark.parametrize(
    ("reference", "supports", "reason"),
    [
        (failing, None, "no such thing"),
        (lambda x: x * 2, lambda case: "nothing at all", "nothing at all"),
        (lambda x: torch.fft.rfft(x), None, "complex"),
    ],
)
def test_it_cannot_tell_where_nothing_was_judged(reference, supports, reason):
    op = kl.op(args=dict(x=kl.tensor("N")), cases=kl.cases(N=[8], dtype=["float32"]))(reference)
    op.impl("mine", supports=supports)(lambda x: x + x)
    with pytest.raises(AssertionError, match="cannot tell") as raised:
        kl.check(op, impl="mine", quick=True)
    assert reason in str(raised.value)


def test_a_right_implementation_passes_the_whole_battery():
    @kl.op(
        args=dict(x=kl.tensor("M N"), b=kl.optional(kl.tensor("N"))),
        cases=kl.cases(M=[8], N=[16], dtype=["float32"]),
    )
    def bias(x, b=None):
        return x * 1 if b is None else x + b

    bias.impl("right")(lambda x, b=None: torch.clone(x) if b is None else b + x)
    statuses = {entry["status"] for entry in run(bias, [bias["right"]], CPU)}
    assert "ok" in statuses <= {"ok", "outside"}
