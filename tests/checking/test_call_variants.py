"""Call variants: twice, with other surroundings, as a registered op."""

import ctypes
import math

import pytest
import torch

import kernellab as kl
from kernellab.checking.examiner import GUARDS, Examiner
from kernellab.declaration.case import Case
from kernellab.trials.trial import Trial
from support.trying import CPU, examine, failures, op_of, plane


@torch.library.custom_op("kernellab_tests::twice", mutates_args=())
def forward_only(x: torch.Tensor) -> torch.Tensor:
    return x * 2


@torch.library.custom_op("kernellab_tests::twice_badly", mutates_args=())
def of_another_dtype(x: torch.Tensor) -> torch.Tensor:
    return x * 2


@forward_only.register_fake
def _(x):
    return torch.empty_like(x)


@of_another_dtype.register_fake
def _(x):
    return torch.empty_like(x, dtype=torch.float64)


def test_an_operator_without_gradients_is_outside_and_operators_that_a_function_calls_are_tested():
    impls = dict(right=lambda x: forward_only(x), wrong=lambda x: of_another_dtype(x), plain=lambda x: x + x)
    op = op_of(lambda x: x * 2, **impls)
    for call in ("plainly", "backward twice"):
        outcome = examine(op, "right", plane(), pass_name="backward", call=call)
        assert (outcome.status, "no autograd formula" in outcome.reason) == ("outside", True)
    assert examine(op, "plain", plane(), call="as a registered op") is None
    assert examine(op, "right", plane(), call="as a registered op").status == "ok"
    outcome = examine(op, "wrong", plane(), call="as a registered op")
    assert (outcome.status, "kernellab_tests.twice_badly" in outcome.reason) == ("wrong", True)


def test_a_later_call_must_not_change_an_earlier_result():
    buffers = {}

    def static(x):
        return buffers.setdefault(x.shape, torch.empty(x.shape)).copy_(2 * x)

    op = op_of(lambda x: x * 2, static=static, fresh=lambda x: x + x)
    outcome = examine(op, "static", plane(), call="twice")
    assert (outcome.status, "its call on other inputs changed" in outcome.reason) == ("wrong", True)
    assert examine(op, "fresh", plane(), call="twice").status == "ok"


def test_results_that_vary_are_noted_where_repeatable_is_false():
    def noisy(x):
        return x * 2 * (1 + torch.finfo(x.dtype).eps * torch.randint(-1, 2, x.shape))

    op = op_of(lambda x: x * 2, undeclared=noisy)
    op.impl("declared", repeatable=False)(noisy)
    outcome = examine(op, "declared", plane(), call="twice")
    assert (outcome.status, "repeatable=False" in outcome.notes[0]) == ("ok", True)
    for call in ("twice", "beside large numbers"):  # it does not read outside
        assert examine(op, "undeclared", plane(), call=call).reason.startswith("not repeatable")


@pytest.mark.parametrize("beyond", [-1, 64])
@pytest.mark.parametrize("pick", [max, min])
def test_reading_outside_an_input_shows_although_nan_loses_every_comparison(beyond, pick):
    def tail(x):
        """The largest, or the smallest, of one element too many; like most code, it prefers any number to NaN."""
        read = ctypes.c_float.from_address(x.data_ptr() + 4 * beyond).value
        best = pick(x.tolist())
        return x.new_tensor(best if math.isnan(read) else pick(best, read))

    op = op_of(lambda x: x.amax() if pick is max else x.amin(), dims="N", reads=tail)
    assert examine(op, "reads", {"N": 64}).status == "ok"
    outcome = examine(op, "reads", {"N": 64}, call="beside large numbers")
    assert (outcome.status, "reads outside its inputs" in outcome.reason) == ("wrong", True)
    assert examine(op, "manual", {"N": 64}, call="beside large numbers").status == "ok"
    without = Examiner(op, seed=0, device=CPU, guards=GUARDS - {"bands"})
    assert without.examine(op["reads"], Trial("calls", Case({"N": 64}, "float32"), call="beside large numbers")) is None


def squares(*, saved_by_shape=False, gradient_by_shape=False):
    """x² with its own backward, which may keep what it saves, or what it returns, in one buffer per shape."""
    saved, returned = {}, {}

    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            saved[x.shape] = x.detach().clone()
            return x * x

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            dx = 2 * g * (saved[x.shape] if saved_by_shape else x)
            if gradient_by_shape:
                return returned.setdefault(x.shape, torch.empty_like(dx)).copy_(dx)
            return dx

    return Square.apply


def test_what_a_backward_needs_and_returns_is_its_own():
    impls = dict(right=squares(), saved=squares(saved_by_shape=True), returned=squares(gradient_by_shape=True))
    op = op_of(lambda x: x * x, **impls)
    fields = dict(pass_name="backward", call="two forwards, then both backwards")
    for name in impls:
        assert examine(op, name, plane(), pass_name="backward").status == "ok", name
    assert examine(op, "right", plane(), **fields).status == "ok"
    assert examine(op, "manual", plane(), **fields).status == "ok"
    outcome = examine(op, "saved", plane(), **fields)
    assert (outcome.status, "the gradient of x" in outcome.reason) == ("wrong", True)
    outcome = examine(op, "returned", plane(), **fields)
    assert (outcome.status, outcome.reason.startswith("a later backward changed")) == ("wrong", True)
    assert examine(
        op_of(lambda x: x * x, none=lambda x: x.detach() * x.detach()), "none", plane(), **fields
    ).status == ("outside")


def test_inference_mode_is_tried():
    def wrong(x):
        return x * (3 if torch.is_inference_mode_enabled() else 2)

    op = op_of(lambda x: x * 2, wrong=wrong, right=lambda x: x + x, function=lambda x: squares()(x) / x * 2)
    assert examine(op, "wrong", plane()).status == "ok"
    assert examine(op, "wrong", plane(), call="in inference mode").status == "wrong"
    for name in ("right", "function", "manual"):
        assert examine(op, name, plane(), call="in inference mode").status == "ok", name


def test_one_tensor_is_given_for_two_inputs_of_equal_shape():
    @kl.op(
        args=dict(x=kl.tensor("M N"), w=kl.tensor("N"), y=kl.tensor("M N")),
        cases=kl.cases(M=[8], N=[16], dtype=["float32"]),
    )
    def mixed(x, w, y):
        return x * w + y * y

    mixed.impl("right")(lambda x, w, y: torch.addcmul(x * w, y, y))
    mixed.impl("same")(lambda x, w, y: mixed.reference(x, w, y) * (2 if x.data_ptr() == y.data_ptr() else 1))
    failed = failures(mixed, "calls")
    assert {(tuple(t.same), t.pass_name) for t in failed.pop("same")} == {
        (("x", "y"), "forward"),
        (("x", "y"), "backward"),
    }
    assert not failed
