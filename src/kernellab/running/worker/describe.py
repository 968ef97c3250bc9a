"""Chooses the device, and describes a loaded op to the parent, which plans without importing it."""

from __future__ import annotations

import torch

from kernellab.base.errors import UserError
from kernellab.declaration.case_request import CaseRequest
from kernellab.declaration.op import Op
from kernellab.declaration.targets import source_hash
from kernellab.running.protocol.events import OpLoaded


def choose_device(requested: str) -> torch.device:
    """The device that `--device` names; `auto` is the first GPU if torch sees one, else the CPU."""
    if requested == "auto":
        return torch.device("cuda", 0) if torch.cuda.is_available() else torch.device("cpu")
    if requested == "cpu":
        return torch.device("cpu")
    device = torch.device(requested)
    if not torch.cuda.is_available():
        has_cuda = torch.version.cuda is not None
        reason = "no NVIDIA GPU responds" if has_cuda else f"torch {torch.__version__} is built without CUDA"
        raise UserError(f"--device {requested}: {reason}. klab doctor shows what is missing; --device cpu works here")
    index = device.index or 0
    if index >= torch.cuda.device_count():
        raise UserError(f"--device {requested}: this machine has {torch.cuda.device_count()} GPU(s), numbered from 0")
    return torch.device("cuda", index)


def describe(op: Op, request: CaseRequest, device: torch.device, impls: list[str]) -> OpLoaded:
    """An op's implementations, each with what prevents it from running on this device, and the requested cases."""
    first_input = list(next(iter(op.args.values())).dims)
    return OpLoaded(
        name=op.name,
        file=str(op.extension or op.file),
        source_hash=source_hash(op),
        known_impls=list(op.impls),
        impls=[
            {
                "name": impl.name,
                "kind": impl.kind.name,
                "obstacle": impl.kind.obstacle(device.type),
                "interpreted": impl.kind.interpreted_on_cpu and device.type == "cpu",
                # Of an Implementation of ops/gradients.py, which is not imported for ops of other files.
                "apart": hasattr(impl.fn, "passes"),
            }
            for impl in op.select_impls(impls)
        ],
        cases=[case.to_json() for case in op.expand(request, device.type)],
        peers=op.peers,
        first_input=first_input,
        reduces=any(dim in op.reduces for dim in first_input[-1:]),
        optional_inputs=list(op.presence_options),
    )
