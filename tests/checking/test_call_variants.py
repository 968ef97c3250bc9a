"""Call variants: twice, with other surroundings, as a registered op."""

import ctypes
import math

import pytest
import torch

from kernellab.checking.examiner import GUARDS, Examiner
from kernellab.declaration.case import Case
from kernellab.trials.trial import Trial
from support.trying import CPU, examine, op_of, plane


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
    assert "not repeatable" in examine(op, "undeclared", plane(), call="twice").reason
    assert examine(op, "undeclared", plane(), call="beside large numbers").status == "ok", "it does not read outside"


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
