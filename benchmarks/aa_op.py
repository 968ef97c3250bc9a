"""The A/A op for benchmarks/aa.py, timed by another tool as well, in the same process.

When a run's worker loads this file, the other tool times implementation `a` twice at each case, before kernellab
measures anything, and a line is added to the file that AA_OTHERS names. The tool is triton.testing.do_bench on a GPU,
torch.utils.benchmark on the CPU.
"""

from __future__ import annotations

import json
import os
import statistics
from pathlib import Path

import torch

from kernellab.declaration.case_request import CaseRequest
from kernellab.declaration.inputs import make_inputs
from kernellab.doctor.aa_op import aa

DEVICE = os.environ["AA_DEVICE"]


def _time(call) -> dict[str, float]:
    """The mean and the median of one measurement, in microseconds."""
    if DEVICE == "cuda":
        from triton.testing import do_bench

        times = [1e3 * ms for ms in do_bench(call, return_mode="all")]
        return {"mean": statistics.mean(times), "median": statistics.median(times)}
    from torch.utils.benchmark import Timer

    timer = Timer("call()", globals={"call": call}, num_threads=torch.get_num_threads())
    measurement = timer.blocked_autorange()
    return {"mean": 1e6 * measurement.mean, "median": 1e6 * measurement.median}


def _time_twice(case) -> dict:
    x = make_inputs(aa, case, seed=0, device=torch.device(DEVICE))["x"]
    aa["a"](x)  # builds the kernel
    return {"case": case.to_json(), "first": _time(lambda: aa["a"](x)), "second": _time(lambda: aa["a"](x))}


with torch.no_grad():
    _line = json.dumps([_time_twice(case) for case in aa.expand(CaseRequest(), DEVICE)])
with Path(os.environ["AA_OTHERS"]).open("a") as _file:
    _file.write(_line + "\n")
