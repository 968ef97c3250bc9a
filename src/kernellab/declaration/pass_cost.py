"""The cost of one pass of an op at a case, from `cost=` and `grad_cost=` or by assumption.

A pass without a declared cost is assumed to move everything once. Rates are computed from an assumed cost too, but no
time is called impossible because of one.
"""

from __future__ import annotations

import json

import torch

from kernellab.base.user_code import explain
from kernellab.declaration.case import Case
from kernellab.declaration.cost import Cost
from kernellab.declaration.documents import CostJson
from kernellab.declaration.inputs import Inputs, call
from kernellab.declaration.op import Op


class CostFailed(Exception):
    """`cost=` or `grad_cost=` raised, or returned something else than a cost. Times stay valid; limits are unknown."""


def cost_of_pass(op: Op, pass_name: str, inputs: Inputs, case: Case) -> CostJson:
    """The cost of a pass on these inputs, which may be meta tensors; those of a backward pass have the upstream
    gradients among them. Raises `CostFailed`."""
    if pass_name == "both":
        return _add(*(cost_of_pass(op, part, inputs, case) for part in ("forward", "backward")))
    declared = op.cost if pass_name == "forward" else op.grad_cost
    tensors = {name: inputs[name] for name in op.args}
    if declared is None:
        assume = _assume_forward if pass_name == "forward" else _assume_backward
        assumed = assume(op, tensors, inputs, case).to_json()
        assumed["assumed"] = True
        return assumed
    keyword = "cost=" if pass_name == "forward" else "grad_cost="
    try:
        cost = call(op, declared, tensors, case)
        if not isinstance(cost, Cost):
            raise TypeError(f"it returned a {type(cost).__name__}, not a kl.Cost")
        counted = cost.to_json()
        json.dumps(counted, allow_nan=False)  # an infinite or symbolic count cannot be recorded
    except Exception as error:
        raise CostFailed(f"{keyword} failed: {explain(error)}") from error
    return counted


def _assume_forward(op: Op, tensors: Inputs, inputs: Inputs, case: Case) -> Cost:
    """Every input is read and every output written, once. The sizes of the outputs come from meta tensors, or, for a
    reference that needs real data, from a call."""
    sizes: Inputs = {name: None if t is None else t.to("meta") for name, t in tensors.items()}
    try:
        outputs = call(op, op.reference, sizes, case)
    except Exception:
        try:
            with torch.no_grad():
                outputs = call(op, op.reference, tensors, case)
        except Exception as error:
            raise CostFailed(f"the reference failed: {explain(error)}") from error
    written = outputs if isinstance(outputs, (tuple, list)) else (outputs,)
    return Cost(read=list(tensors.values()), write=[t for t in written if isinstance(t, torch.Tensor)])


def _assume_backward(op: Op, tensors: Inputs, inputs: Inputs, case: Case) -> Cost:
    """The inputs and the upstream gradients are read; a gradient of each floating-point input is written."""
    gradients = [t for t in tensors.values() if t is not None and t.is_floating_point()]
    return Cost(read=list(inputs.values()), write=gradients)


def _add(*costs: CostJson) -> CostJson:
    """The sum counts as assumed: data that two passes share need not be moved twice."""
    units = sorted({unit for cost in costs for unit in cost["flops"]})
    flops = {unit: sum(cost["flops"].get(unit, 0) for cost in costs) for unit in units}
    return {
        "bytes_read": sum(cost["bytes_read"] for cost in costs),
        "bytes_written": sum(cost["bytes_written"] for cost in costs),
        "flops": flops,
        "assumed": True,
    }
