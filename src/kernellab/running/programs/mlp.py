"""The process that trains the MLP: under the profiler, under a tool of NVIDIA's, or by the clock alone.

What is asked for comes as JSON on the command line; what came of it goes into a file.
"""

from __future__ import annotations

import dataclasses
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import torch

from kernellab.base.errors import UserError
from kernellab.profiler.schedule import COLLECTED, Schedule
from kernellab.profiler.session import How, Session
from kernellab.workloads.mlp import train
from kernellab.workloads.mlp_setup import FIRST_CAPTURED, Setup

_WARM_STEPS = 3
_SAMPLES = 9  # of a time, for an interval that is worth its name
_LEAST_S = 0.05  # of a sample
_NO_MEMORY = ("can't allocate memory", "not enough memory", "Storage size calculation overflowed")


def main() -> None:
    asked: dict[str, Any] = json.loads(sys.argv[1])
    folder = Path(asked["folder"])
    try:
        if asked["do"] == "scale":
            found: Any = [_timed(Setup(**setup), by=asked["by"]) for setup in asked["setups"]]
        elif asked["do"] == "train":  # a tool records
            train(Setup(**asked["setup"]))
            return
        else:
            found = [_profiled(asked, folder)]
    except UserError as error:
        error.report()
        sys.exit(2)
    except RuntimeError as error:  # the CPU's allocator raises no error of its own kind
        if not isinstance(error, torch.OutOfMemoryError) and not any(word in str(error) for word in _NO_MEMORY):
            raise
        sys.exit(f"klab: out of memory: {str(error).splitlines()[0]}")
    finally:
        if torch.distributed.is_initialized():
            torch.distributed.destroy_process_group()
    rank = os.environ.get("RANK", "0")
    (folder / f"{rank}{COLLECTED}").write_text(json.dumps(found))


def _profiled(asked: dict[str, Any], folder: Path) -> dict[str, Any]:
    setup = Setup(**asked["setup"])
    own = Schedule(FIRST_CAPTURED - 1, 1, setup.steps - FIRST_CAPTURED)
    schedule = Schedule(**asked["schedule"]) if asked["schedule"] else own
    rank = os.environ.get("RANK")
    session = Session(folder, "mlp" + (f"-rank{rank}" if rank else ""), schedule, how=How(**asked["how"]), marked=True)
    session.start()
    try:
        trained = train(setup)
    finally:
        session.stop()
    return {**session.to_json(), "rank": int(rank or 0), "trained": dataclasses.asdict(trained)}


def _timed(setup: Setup, by: str) -> dict[str, Any]:
    """Times of training: of all steps where their number is what varies, else of one."""
    one = dataclasses.replace(setup, steps=_WARM_STEPS)
    train(one)
    steps = setup.steps
    if by != "steps":
        each = train(one).seconds / _WARM_STEPS
        steps = max(_WARM_STEPS, min(setup.steps, round(_LEAST_S / each)))
    samples = [train(dataclasses.replace(setup, steps=steps)).seconds for _ in range(_SAMPLES)]
    samples_us = [1e6 * seconds / (1 if by == "steps" else steps) for seconds in samples]
    return {"size": getattr(setup, by), "steps": steps, "samples_us": samples_us, "when": time.time()}


if __name__ == "__main__":
    main()
