"""The passes of an op."""

import pytest
import torch

import kernellab as kl
from kernellab.declaration.case import Case
from kernellab.declaration.passes import NotDifferentiable, is_upstream, pass_of

CASE = Case({"...": (3,)}, "float64")


def compute(pass_name, fn, wrt=()):
    op = kl.op(args=dict(x=kl.tensor("..."), y=kl.tensor("...")))(lambda x, y: fn(x, y))
    pass_ = pass_of(pass_name, wrt)
    inputs = pass_.inputs(op, CASE, 0, torch.device("cpu"))
    return inputs, pass_.compute(op, fn, inputs, CASE)


def test_backward_gives_a_gradient_of_every_float_input_and_zeros_for_an_unused_one():
    inputs, (dx, dy) = compute("backward", lambda x, y: x * x)
    (upstream,) = (t for name, t in inputs.items() if is_upstream(name))
    assert torch.allclose(dx, 2 * inputs["x"] * upstream)
    assert torch.equal(dy, torch.zeros(3, dtype=torch.float64))


def test_inputs_outside_wrt_get_no_gradient():
    _, gradients = compute("backward", lambda x, y: x * y, wrt=["y"])
    assert len(gradients) == 1


def test_double_backward_differentiates_the_gradient():
    _, (second, _) = compute("double backward", lambda x, y: x**3)
    assert bool((second != 0).all())


@pytest.mark.parametrize("pass_name", ["backward", "both", "double backward"])
def test_a_result_without_a_grad_fn_has_no_gradients(pass_name):
    with pytest.raises(NotDifferentiable):
        compute(pass_name, lambda x, y: x.detach())
