"""The process under a tool of compute-sanitizer: one way of an op, called at one trial after the other.

Nothing is compared: the tool watches. Inputs are made on the CPU and copied over, each with the very memory it
spans, so that few kernels but the way's run, and nothing is read that was never written. What the process is at it
says on standard output, where the tool's reports stand too.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from pathlib import Path
from typing import Any

import torch

from kernellab.accuracy.oracle import gpu_is_dead, synchronise
from kernellab.base.user_code import explain
from kernellab.checking import compiled_impls as compiled
from kernellab.checking.refusals import refuses_gradients
from kernellab.declaration.inputs import Inputs
from kernellab.declaration.op import Impl, Op
from kernellab.declaration.passes import NotDifferentiable, pass_of
from kernellab.declaration.targets import Target, load
from kernellab.running.worker.describe import choose_device
from kernellab.sanitizer.report import MARK, MOST, subset
from kernellab.trials import trial_inputs as material
from kernellab.trials.battery import COMPILED, Battery
from kernellab.trials.trial import Trial


def main() -> None:
    sys.path.append(str(Path.cwd()))
    asked: dict[str, Any] = json.loads(sys.argv[1])
    device = choose_device(asked["device"])
    if device.type == "cuda":
        torch.cuda.set_device(device)
    op = load(Target(**asked["target"]))[asked["op"]]
    trials = Battery(op, device.type, dtypes=asked["dtypes"], quick=asked["quick"]).trials()
    run(op, op[asked["impl"]], trials, asked["seed"], device)
    sys.stdout.flush()


def run(op: Op, impl: Impl, trials: list[Trial], seed: int, device: torch.device) -> None:
    chosen = subset(trials, COMPILED if impl.kind.name == "compile" else MOST)
    _say(trials=len(chosen))
    for trial in chosen:
        _say(begin=trial.label)
        _say(**_tried(op, impl, trial, seed, device))
        if gpu_is_dead(device):  # a fault that no tool can undo
            return
    _say(end=True)


def _tried(op: Op, impl: Impl, trial: Trial, seed: int, device: torch.device) -> dict[str, str]:
    """`ok` where the call returned; whether it was right is not asked here."""
    try:
        refusal = impl.refusal(trial.asked)
        if impl.mutates and trial.of != "forward":
            refusal = "not differentiable: it changes its inputs"
        if refusal is not None:
            return {"status": "outside", "reason": refusal}
        inputs = _inputs(op, trial, seed, device)
        if impl.kind.name == "compile":
            compiled.forget(op)
        pass_of(trial.of, trial.wrt).compute(op, impl, inputs, trial.case)
        synchronise(device)
    except NotDifferentiable as no:
        return {"status": "outside", "reason": f"not differentiable: {no}"}
    except BaseException as error:  # SystemExit too: nothing a way raises may end the process
        with contextlib.suppress(Exception):
            synchronise(device)
        if trial.of != "forward" and refuses_gradients(error):
            return {"status": "outside", "reason": f"not differentiable: {explain(error)}"}
        return {"status": "error", "reason": explain(error)}
    return {"status": "ok", "reason": ""}


def _inputs(op: Op, trial: Trial, seed: int, device: torch.device) -> Inputs:
    try:
        made = material.make(op, trial, seed, torch.device("cpu"), bands=False).inputs
    except Exception:  # a reference that knows GPUs only
        return material.make(op, trial, seed, device, bands=False).inputs
    return {name: None if t is None else _moved(t, device) for name, t in made.items()}


def _moved(t: torch.Tensor, device: torch.device) -> torch.Tensor:
    """A copy with the same strides, in an allocation that ends where the tensor does."""
    reach = sum((n - 1) * s for n, s in zip(t.shape, t.stride(), strict=True)) + 1 if t.numel() else 0
    span = t.as_strided((t.storage_offset() + reach,), (1,), 0)
    return span.to(device, copy=True).as_strided(t.shape, t.stride(), t.storage_offset())


def _say(**what: Any) -> None:
    sys.stdout.flush()
    os.write(1, f"\n{MARK}{json.dumps(what)}\n".encode())  # on a line of its own, whatever the way has printed
