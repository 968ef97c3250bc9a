"""The process that runs under compute-sanitizer: it calls one implementation of an op with one trial after the other.

Results are not compared: the tool checks the memory accesses. Inputs are made on the CPU and copied to the GPU, each
into exactly the memory it spans: few kernels run besides the implementation's, and no uninitialised memory is read.
The process reports its progress on standard output, between the tool's reports.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TypedDict

import torch

from kernellab.base.json import JsonValue
from kernellab.base.user_code import explain
from kernellab.checking.compiled_impls import reset_compiled
from kernellab.checking.refusals import refuses_gradients
from kernellab.declaration.inputs import Inputs
from kernellab.declaration.op import Impl, Op
from kernellab.declaration.passes import NotDifferentiable, pass_of
from kernellab.declaration.targets import Target
from kernellab.machine.gpu_state import gpu_is_dead, synchronise
from kernellab.peers import load
from kernellab.running.worker.describe import choose_device
from kernellab.sanitizer.report import MARK
from kernellab.sanitizer.selection import MAX_TRIALS, select
from kernellab.trials.battery import battery
from kernellab.trials.domain import refusal
from kernellab.trials.guard_bands import span
from kernellab.trials.selection import COMPILE_TRIALS
from kernellab.trials.trial import Trial
from kernellab.trials.trial_inputs import make_inputs


class Request(TypedDict):
    """The argument of the program, as JSON."""

    target: dict[str, str]
    op: str
    impl: str
    device: str
    seed: int
    dtypes: list[str]
    quick: bool


def main() -> None:
    sys.path.append(str(Path.cwd()))
    request: Request = json.loads(sys.argv[1])
    device = choose_device(request["device"])
    if device.type == "cuda":
        torch.cuda.set_device(device)
    op = load(Target(**request["target"]))[request["op"]]
    impl = op[request["impl"]]
    trials = battery(op, device.type, impl=impl, dtypes=request["dtypes"], quick=request["quick"])
    run(op, impl, trials, request["seed"], device)
    sys.stdout.flush()


def run(op: Op, impl: Impl, trials: Sequence[Trial], seed: int, device: torch.device) -> None:
    selected = select(trials, COMPILE_TRIALS if impl.kind.name == "compile" else MAX_TRIALS)
    _report(trials=len(selected))
    for trial in selected:
        _report(begin=trial.label)
        status, reason = _call(op, impl, trial, seed, device)
        _report(status=status, reason=reason)
        if gpu_is_dead(device):  # no further call can succeed
            return
    _report(end=True)


def _call(op: Op, impl: Impl, trial: Trial, seed: int, device: torch.device) -> tuple[str, str]:
    """Returns (status, reason); the status is `ok` if the call returned, whatever the values."""
    try:
        reason = refusal(impl, trial)
        if reason is not None:
            return "outside", reason
        inputs = _make_inputs(op, trial, seed, device)
        if impl.kind.name == "compile":
            reset_compiled(op)
        pass_of(trial.pass_name, trial.wrt).compute(op, impl, inputs, trial.case, mutates=impl.mutates)
        synchronise(device)
    except NotDifferentiable as error:
        return "outside", f"not differentiable: {error}"
    except BaseException as error:  # SystemExit too: nothing an implementation raises may end the process
        with contextlib.suppress(Exception):
            synchronise(device)
        if trial.pass_name != "forward" and refuses_gradients(error, mutates=bool(impl.mutates)):
            return "outside", f"not differentiable: {explain(error)}"
        return "error", explain(error)
    return "ok", ""


def _make_inputs(op: Op, trial: Trial, seed: int, device: torch.device) -> Inputs:
    try:
        tensors = make_inputs(op, trial, seed, torch.device("cpu"), guarded=False).tensors
    except Exception:  # a reference that runs only on GPUs
        return make_inputs(op, trial, seed, device, guarded=False).tensors
    return {name: None if t is None else _copy_to(t, device) for name, t in tensors.items()}


def _copy_to(t: torch.Tensor, device: torch.device) -> torch.Tensor:
    """A copy with the same strides, in an allocation that ends with the tensor's last element."""
    flat = t.as_strided((t.storage_offset() + span(t.shape, t.stride()),), (1,), 0)
    return flat.to(device, copy=True).as_strided(t.shape, t.stride(), t.storage_offset())


def _report(**progress: JsonValue) -> None:
    sys.stdout.flush()
    # On a line of its own, even if the implementation's output does not end with a newline.
    os.write(1, f"\n{MARK}{json.dumps(progress)}\n".encode())
