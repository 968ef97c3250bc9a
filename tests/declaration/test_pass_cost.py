"""The cost of a pass: declared, assumed, or failed."""

import pytest
import torch

import kernellab as kl
from kernellab.declaration.case import Case
from kernellab.declaration.pass_cost import CostFailed, cost_of_pass
from kernellab.declaration.passes import pass_of

CASE = Case({"...": (4, 8)}, "float32")
BYTES = 4 * 8 * 4


def cost(pass_name, *, meta=False, **declaration):
    op = kl.op(**declaration)(lambda x: (x.sum(), x))
    inputs = pass_of(pass_name).inputs(op, CASE, 0, torch.device("cpu"))
    if meta:
        inputs = {name: t.to("meta") for name, t in inputs.items()}
    return cost_of_pass(op, pass_name, inputs, CASE)


def declared(x):
    return kl.Cost(read=[x, None], write=[100], flops={"fp32": 9})


def test_cost_counts_bytes_of_tensors_and_numbers():
    x = torch.empty(4, 8, dtype=torch.bfloat16)
    cost = kl.Cost(read=[x, None], write=[100], flops={"fp32": 9})
    assert cost.to_json() == {"bytes_read": 64, "bytes_written": 100, "flops": {"fp32": 9}}


@pytest.mark.parametrize("meta", [False, True])
def test_a_declared_cost_is_taken(meta):
    expected = {"bytes_read": BYTES, "bytes_written": 100, "flops": {"fp32": 9}}
    assert cost("forward", cost=declared, meta=meta) == expected
    assert cost("backward", grad_cost=declared, meta=meta) == expected


@pytest.mark.parametrize("meta", [False, True])
def test_without_a_declaration_everything_is_moved_once(meta):
    assumed = {"flops": {}, "assumed": True}
    assert cost("forward", meta=meta) == {"bytes_read": BYTES, "bytes_written": BYTES + 4, **assumed}
    assert cost("backward", meta=meta) == {"bytes_read": 2 * BYTES + 4, "bytes_written": BYTES, **assumed}


def test_the_sum_of_two_declared_passes_is_an_assumption():
    both = cost("both", cost=declared, grad_cost=declared)
    assert both == {"bytes_read": 2 * BYTES, "bytes_written": 200, "flops": {"fp32": 18}, "assumed": True}


def test_a_reference_that_needs_real_data_is_called():
    op = kl.op(lambda x: x * x.sum().item())
    inputs = {"x": torch.zeros(4, 8)}
    assert cost_of_pass(op, "forward", inputs, CASE)["bytes_written"] == BYTES
    with pytest.raises(CostFailed, match="the reference failed"):
        cost_of_pass(op, "forward", {"x": torch.zeros(4, 8, device="meta")}, CASE)


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (lambda x: 1 / 0, "cost= failed: ZeroDivisionError"),
        (lambda x: 3, "it returned a int, not a kl.Cost"),
        (lambda x: kl.Cost(flops={"fp32": float("nan")}), "cost= failed: ValueError"),
    ],
)
def test_a_cost_that_fails_says_why(function, reason):
    with pytest.raises(CostFailed, match=reason):
        cost("forward", cost=function)
