"""The cost of one pass of an op at a case: declared by `cost=` and `grad_cost=`, or assumed.

A pass without a declared cost is assumed to move every tensor once. Rates are computed from an assumed cost too. A time
that it rules out is not called wrong: the verdict is *cannot tell*, until a cost is declared.
"""

from __future__ import annotations

import json

import torch

from kernellab.base.user_code import explain
from kernellab.declaration.arguments import Cost
from kernellab.declaration.case import Case
from kernellab.declaration.documents import CostJson
from kernellab.declaration.inputs import Inputs, call
from kernellab.declaration.op import Op


class CostFailed(Exception):
    """`cost=` or `grad_cost=` raised or did not return a cost. Times stay valid; limits are unknown."""


def cost_of_pass(op: Op, pass_name: str, inputs: Inputs, case: Case) -> CostJson:
    """The cost of a pass on these inputs, which may be meta tensors. For a backward pass, they include the upstream
    gradients. Raises `CostFailed`."""
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
        cost_json = cost.to_json()
        json.dumps(cost_json, allow_nan=False)  # an infinite or symbolic count cannot be recorded
    except Exception as error:
        raise CostFailed(f"{keyword} failed: {explain(error)}") from error
    return cost_json


def _assume_forward(op: Op, tensors: Inputs, inputs: Inputs, case: Case) -> Cost:
    """Every input is read once and every output is written once. The outputs' sizes come from a call of the reference
    on meta tensors, or on the tensors themselves if it needs real data."""
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
    """The inputs and the upstream gradients are read; the gradient of each input that takes one is written."""
    return Cost(read=list(inputs.values()), write=[tensors[name] for name in op.gradient_args])


def _add(*costs: CostJson) -> CostJson:
    """The sum of costs. It counts as assumed: data that both passes use need not be moved twice."""
    units = sorted({unit for cost in costs for unit in cost["flops"]})
    flops = {unit: sum(cost["flops"].get(unit, 0) for cost in costs) for unit in units}
    return {
        "bytes_read": sum(cost["bytes_read"] for cost in costs),
        "bytes_written": sum(cost["bytes_written"] for cost in costs),
        "flops": flops,
        "assumed": True,
    }
