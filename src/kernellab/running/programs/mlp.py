"""Trains the MLP: under PyTorch's profiler, under one of NVIDIA's tools, or timed at several sizes.

The request comes as JSON on the command line (`protocol.MlpRequest`); reports or times go into the folder it names.
"""

from __future__ import annotations

import dataclasses
import json
import os
import sys
import time
from pathlib import Path

import torch

from kernellab.base.errors import UserError
from kernellab.profiler.protocol import MlpRequest, SessionReport, SizeTimes, write_reports
from kernellab.profiler.recording import RecordingOptions
from kernellab.profiler.schedule import Schedule
from kernellab.profiler.session import Session
from kernellab.workloads.mlp import train
from kernellab.workloads.mlp_setup import FIRST_CAPTURED_STEP, MlpSetup

_WARMUP_STEPS = 3
_SAMPLES = 9  # enough for an interval of the median
_LEAST_SAMPLE_S = 0.05
_OUT_OF_MEMORY = ("can't allocate memory", "not enough memory", "Storage size calculation overflowed")


def main() -> None:
    request: MlpRequest = json.loads(sys.argv[1])
    folder, rank = Path(request["folder"]), int(os.environ.get("RANK", "0"))
    try:
        if request["do"] == "scale":
            setups = [MlpSetup(**setup) for setup in request["setups"]]
            write_reports(folder, rank, [_time_training(setup, request["by"]) for setup in setups])
        elif request["do"] == "train":  # a tool records
            train(MlpSetup(**request["setup"]))
        else:
            write_reports(folder, rank, [_profile(request, folder)])
    except UserError as error:
        error.report()
        sys.exit(2)
    except RuntimeError as error:  # the CPU's allocator raises nothing more specific
        if not isinstance(error, torch.OutOfMemoryError) and not any(words in str(error) for words in _OUT_OF_MEMORY):
            raise
        sys.exit(f"klab: out of memory: {str(error).splitlines()[0]}")
    finally:
        if torch.distributed.is_initialized():
            torch.distributed.destroy_process_group()


def _profile(request: MlpRequest, folder: Path) -> SessionReport:
    setup = MlpSetup(**request["setup"])
    requested = request["schedule"]
    default = Schedule(FIRST_CAPTURED_STEP - 1, 1, setup.steps - FIRST_CAPTURED_STEP)
    rank = os.environ.get("RANK")
    session = Session(
        folder,
        "mlp" + (f"-rank{rank}" if rank else ""),
        Schedule(**requested) if requested else default,
        options=RecordingOptions(**request["how"]),
        steps_in_trace=True,
    )
    session.start()
    try:
        result = train(setup)
    finally:
        session.stop()
    return {**session.report(), "rank": int(rank or 0), "trained": result.to_json()}


def _time_training(setup: MlpSetup, by: str) -> SizeTimes:
    """Times of all steps together if their number is the size that varies; of one step otherwise."""
    short = dataclasses.replace(setup, steps=_WARMUP_STEPS)
    train(short)
    steps = setup.steps
    if by != "steps":
        step_s = train(short).seconds / _WARMUP_STEPS
        steps = max(_WARMUP_STEPS, min(setup.steps, round(_LEAST_SAMPLE_S / step_s)))
    samples_s = [train(dataclasses.replace(setup, steps=steps)).seconds for _ in range(_SAMPLES)]
    samples_us = [1e6 * seconds / (1 if by == "steps" else steps) for seconds in samples_s]
    return {"size": setup.size(by), "steps": steps, "samples_us": samples_us, "when": time.time()}


if __name__ == "__main__":
    main()
