"""The process whose launches Nsight Compute counts: one call per implementation, or square with several grids.

Compilation, tuning, warm-up and inputs come first: ncu counts only between the start and the
stop of the profiler. Run without ncu, this program lists the implementations. Requests are `protocol.OpRequest`.
"""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import torch

from kernellab.base.errors import UserError
from kernellab.declaration.documents import CostJson
from kernellab.machine.gpu_state import synchronise
from kernellab.profiler.protocol import CountAnswer, ImplListing, OpRequest
from kernellab.profiler.tool_capture import ToolCapture
from kernellab.running.programs.op_calls import ImplCalls, load_request, run_impl

_NO_GPU = "--with ncu counts what a GPU does: this machine has no GPU, or --device cpu was given"


def main() -> None:
    sys.path.append(str(Path.cwd()))
    request: OpRequest = json.loads(sys.argv[1])
    try:
        answer = _ACTIONS[request["do"]](request)
    except UserError as error:
        error.report()
        sys.exit(2)
    if request["answer"]:
        Path(request["answer"]).write_text(json.dumps(answer))


def list_impls(request: OpRequest) -> list[ImplListing]:
    """The implementations requested, each with the reason why it cannot be run."""
    device, op, case, impls = load_request(request)
    if device.type != "cuda":
        raise UserError(_NO_GPU)
    calls = [ImplCalls(impl, case, device, request["pass"]) for impl in impls]
    return [
        {"impl": call.impl.name, "op": op.name, "case": case.to_json(), "reason": call.obstacle() or ""}
        for call in calls
    ]


def count_calls(request: OpRequest) -> list[CountAnswer]:
    """Have ncu count one call of each implementation."""
    device, _, case, impls = load_request(request)
    return [_count_call(ImplCalls(impl, case, device, request["pass"])) for impl in impls]


def _count_call(calls: ImplCalls) -> CountAnswer:
    cost: CostJson | None = None

    def call_once() -> None:
        nonlocal cost
        cost = calls.declared_cost()
        prepared = calls.prepare()
        _run_captured(calls.device, [prepared])

    outcome = run_impl(calls, call_once)
    return {
        "impl": calls.impl.name,
        "status": outcome["status"],
        "reason": outcome["reason"],
        "cost": cost,
        "dtype": calls.case.dtype,
    }


def sweep_grids(request: OpRequest) -> list[CountAnswer]:
    """Have ncu count square of one tensor with every requested grid and block."""
    device, _, case, _ = load_request(request)
    if device.type != "cuda":
        raise UserError(_NO_GPU)
    from kernellab.workloads.grids import square_by_grid  # imports Triton, which other actions do not need

    x = torch.randn(case.shape, device=device).to(getattr(torch, case.dtype))
    sizes = [(blocks, threads) for threads in request["blocks"] for blocks in request["grids"]]
    for blocks, threads in sizes:
        if not torch.equal(square_by_grid(x, blocks, threads), x * x):
            raise UserError(f"square with {blocks} blocks of {threads} threads is wrong: nothing was counted")
    _run_captured(device, [functools.partial(square_by_grid, x, blocks, threads) for blocks, threads in sizes])
    return [{"status": "ok", "reason": "", "case": case.to_json()}]


def _run_captured(device: torch.device, calls: Sequence[Callable[[], object]]) -> None:
    """Have ncu count exactly the launches of these calls."""
    synchronise(device)
    with ToolCapture(enabled=device.type == "cuda") as capture:
        capture.begin()
        for call in calls:
            call()
        synchronise(device)


_ACTIONS: dict[str, Callable[[OpRequest], object]] = {
    "list": list_impls,
    "count": count_calls,
    "grids": sweep_grids,
}
