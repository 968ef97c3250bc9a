"""What can be wrong with a result besides its values."""

import pytest
import torch

import kernellab as kl
from kernellab.checking.declared_case import CaseChecker
from kernellab.declaration.case import Case
from support.trying import CPU, check, differentiable, doubling, examine, op_of, plane


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
        (lambda x: torch.empty(1 << 50), "oom", "needs at least 4.19e+06 GiB, cpu has"),
        (lambda x: x, "wrong", "returned the memory of its input x"),
        (lambda x: 1 / 0, "error", "ZeroDivisionError: division by zero (test_form.py:"),
        (lambda x, y: x, "error", "missing 1 required positional argument"),
    ],
)
def test_what_is_wrong_with_a_result_is_named(fn, status, reason):
    op = doubling()
    op.impl("suspect")(fn)
    outcome = check(op, "suspect")
    assert outcome.status == status
    assert reason in outcome.reason


def test_other_strides_are_noted_in_users_implementations_and_wrong_in_shipped_ones():
    op = doubling()
    case = Case({"...": (4, 6)}, "float32")
    op.impl("transposed")(lambda x: (x.t() * 2).contiguous().t())
    outcome = CaseChecker(op, case, seed=0, device=CPU).check(op["transposed"])
    assert outcome.status == "ok"
    assert outcome.outcomes[0].notes == ("the elements lie in memory in another order than manual's",)
    op.file = kl.ops.gelu.file
    assert CaseChecker(op, case, seed=0, device=CPU).check(op["transposed"]).status == "ok", "added by this file"
    op["transposed"].file = op.file
    outcome = CaseChecker(op, case, seed=0, device=CPU).check(op["transposed"])
    assert (outcome.status, "strides (" in outcome.reason) == ("wrong", True)
    op.any_strides = True
    assert CaseChecker(op, case, seed=0, device=CPU).check(op["transposed"]).status == "ok", "declared so"


def test_strides_of_gradients_are_free_in_shipped_ops_too_and_those_of_the_result_are_named():
    transposed = differentiable(lambda x: x + x, lambda ctx, saved, grad: (grad.t() * 2).contiguous().t())
    turned = differentiable(lambda x: (x + x).t().contiguous().t(), lambda ctx, saved, grad: grad * 2)
    op = op_of(lambda x: x + x, gradient=transposed, result=turned)
    op.file = op["gradient"].file = op["result"].file = kl.ops.gelu.file
    outcome = examine(op, "gradient", plane(), pass_name="backward")
    assert (outcome.status, outcome.notes) == ("ok", ())
    outcome = examine(op, "result", plane(), pass_name="backward")
    assert (outcome.status, outcome.reason) == ("wrong", "the result: strides (1, 16), manual's are (32, 1)")


def _gone(x):
    y = x * 2
    y.untyped_storage().resize_(0)
    return y


@pytest.mark.parametrize(
    ("fn", "reason"),
    [
        (lambda x: (2 * x).to_sparse(), "returned a sparse_coo tensor, not a dense one"),
        (_gone, "returned a tensor whose memory is gone"),
    ],
)
def test_results_that_cannot_be_compared_are_wrong_not_unknown(fn, reason):
    op = doubling()
    op.impl("bad")(fn)
    outcome = check(op, "bad")
    assert (outcome.status, outcome.reason) == ("wrong", reason)
