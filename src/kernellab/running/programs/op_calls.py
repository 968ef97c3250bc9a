"""Prepares calls of an op's implementations, one by one, for the programs that profile and count them."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch

from kernellab.base.errors import UserError, nearest
from kernellab.base.user_code import explain
from kernellab.declaration.case import Case
from kernellab.declaration.case_request import CaseRequest
from kernellab.declaration.cost import CostFailed, cost_of_pass
from kernellab.declaration.documents import CostJson
from kernellab.declaration.inputs import Inputs, clone
from kernellab.declaration.kinds import match_names
from kernellab.declaration.op import Impl, Op
from kernellab.declaration.passes import NotDifferentiable, pass_of
from kernellab.declaration.targets import Target, load
from kernellab.machine.gpu_state import synchronise
from kernellab.profiler.protocol import OpRequest, Outcome
from kernellab.running.worker.describe import choose_device

_WARMUP_CALLS = 3


class LoadedRequest(NamedTuple):
    """The device, op, case and implementations that a request names."""

    device: torch.device
    op: Op
    case: Case
    impls: list[Impl]


def load_request(request: OpRequest) -> LoadedRequest:
    """Execute the op's file. Refuses a request that names no op, several ops, or an unknown implementation."""
    device = choose_device(request["device"])
    if device.type == "cuda":
        torch.cuda.set_device(device)
    ops = load(Target(**request["target"]))
    if len(ops) > 1:
        file = request["target"]["text"]
        raise UserError(f"{file} declares {', '.join(ops)}: name one of them, as in {file}:{next(iter(ops))}")
    op = next(iter(ops.values()))
    for name in request["impls"]:
        if not match_names(name, op.impls):
            raise UserError(f"no implementation {name!r} of {op.name}: {nearest(name, op.impls)}")
    case = op.expand(CaseRequest(**request["request"]), device.type)[0]
    return LoadedRequest(device, op, case, list(op.select_impls(request["impls"])))


class ImplCalls:
    """Calls of one implementation. Each is prepared anew: a call may change its inputs or free the autograd graph."""

    def __init__(self, impl: Impl, case: Case, device: torch.device, pass_name: str) -> None:
        self.op, self.impl, self.case, self.device = impl.op, impl, case, device
        self._pass = pass_of(pass_name)
        self._inputs: Inputs = {}

    def obstacle(self) -> str | None:
        """Why the implementation cannot run here; None if it can."""
        kind = self.impl.kind
        if kind.interpreted_on_cpu and self.device.type == "cpu":
            return "needs a GPU: interpreter time is not speed"
        return kind.obstacle(self.device.type) or self.impl.refusal(self.case)

    def warm_up(self) -> None:
        """Make the inputs, compile and tune."""
        self._inputs = self._pass.inputs(self.op, self.case, 0, self.device)
        for _ in range(_WARMUP_CALLS):
            self.prepare()()
        synchronise(self.device)

    def prepare(self) -> Callable[[], object]:
        impl = self.impl
        inputs = clone(self._inputs) if impl.changes_inputs else self._inputs
        prepared: Callable[[], object] = self._pass.prepare(
            self.op, impl.fn, inputs, self.case, mutates=impl.changed_inputs
        )
        return torch.no_grad()(prepared) if self._pass.name == "forward" else prepared

    def declared_cost(self) -> CostJson | None:
        """The fewest bytes and operations of the pass, if the op declares them. Call `warm_up` first."""
        try:
            cost = cost_of_pass(self.op, self._pass.name, self._inputs, self.case)
        except CostFailed:  # the counters stay valid without it
            return None
        return None if cost.get("assumed") else cost


def run_impl(calls: ImplCalls, steps: Callable[[], None]) -> Outcome:
    """Warm up the implementation and run its steps. No exception that it raises ends the process."""
    try:
        reason = calls.obstacle()
        if reason:
            return {"status": "skipped", "reason": reason}
        calls.warm_up()
        steps()
    except NotDifferentiable as error:
        return {"status": "skipped", "reason": f"not differentiable: {error}"}
    except BaseException as error:  # SystemExit included
        return {"status": "error", "reason": explain(error)}
    return {"status": "ok", "reason": ""}
