"""The process whose launches Nsight Compute counts: exactly those of one call of a way, or of square by several grids.

Everything is compiled, tuned and warmed before; inputs are ready. ncu listens between the profiler's start and stop.
Run without ncu it tells which ways there are.
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from kernellab.base.errors import UserError
from kernellab.declaration.documents import CostJson
from kernellab.machine.gpu_state import synchronise
from kernellab.running.programs.profiled_op import Way, opened, outcome

_NO_GPU = "--with ncu counts what a GPU does: there is none here, or --device cpu was asked for"


def main() -> None:
    sys.path.append(str(Path.cwd()))
    asked: dict[str, Any] = json.loads(sys.argv[1])
    try:
        found = {"list": listed, "count": counted, "grids": swept}[asked["do"]](asked)
    except UserError as error:
        error.report()
        sys.exit(2)
    if asked["answer"]:
        Path(asked["answer"]).write_text(json.dumps(found))


def listed(asked: dict[str, Any]) -> list[dict[str, Any]]:
    """The ways asked for, with why one cannot be run."""
    device, op, case = opened(asked)
    if device.type != "cuda":
        raise UserError(_NO_GPU)
    ways = [Way(op, impl, case, device, asked) for impl in op.select_impls(asked["impls"])]
    return [{"impl": w.impl.name, "op": op.name, "case": case.to_json(), "reason": w.refusal() or ""} for w in ways]


def counted(asked: dict[str, Any]) -> list[dict[str, Any]]:
    """One call of each way."""
    device, op, case = opened(asked)
    found = []
    for impl in op.select_impls(asked["impls"]):
        way = Way(op, impl, case, device, asked)
        cost: list[CostJson | None] = []

        def once(way: Way = way, cost: list[CostJson | None] = cost) -> None:
            cost.append(way.cost())
            ready = way.prepared()
            with heard(way.device):
                ready()

        ended = outcome(way, once)
        found.append({"impl": impl.name, **ended, "cost": cost[0] if cost else None, "dtype": case.dtype})
    return found


def swept(asked: dict[str, Any]) -> list[dict[str, Any]]:
    """Square of one and the same tensor, by every grid and block asked for."""
    device, _, case = opened(asked)
    if device.type != "cuda":
        raise UserError(_NO_GPU)
    from kernellab.workloads.grids import square_by_grid  # Triton is imported by those who need it

    x = torch.randn(case.shape, device=device).to(getattr(torch, case.dtype))
    sizes = [(blocks, threads) for threads in asked["blocks"] for blocks in asked["grids"]]
    for blocks, threads in sizes:
        if not torch.equal(square_by_grid(x, blocks, threads), x * x):
            raise UserError(f"square by {blocks} blocks of {threads} threads came out wrong: nothing is counted")
    with heard(device):
        for blocks, threads in sizes:
            square_by_grid(x, blocks, threads)
    return [{"case": case.to_json()}]


@contextlib.contextmanager
def heard(device: torch.device) -> Iterator[None]:
    synchronise(device)
    if device.type == "cuda":
        torch.cuda.cudart().cudaProfilerStart()
    try:
        yield
        synchronise(device)
    finally:
        if device.type == "cuda":
            torch.cuda.cudart().cudaProfilerStop()
