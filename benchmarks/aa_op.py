"""The A/A op for benchmarks/aa.py, which also wants to know what others say of the same kernel in the same process.

Loading this file in a run's worker calls the usual timer twice for way `a` at each case, before kernellab measures
anything, and adds a line to the file that AA_OTHERS names: triton.testing.do_bench on a GPU, on the CPU
torch.utils.benchmark.
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


def _said(call) -> dict[str, float]:
    """Microseconds, as the mean and as the median of one and the same measurement."""
    if DEVICE == "cuda":
        from triton.testing import do_bench

        times = [1e3 * ms for ms in do_bench(call, return_mode="all")]
        return {"mean": statistics.mean(times), "median": statistics.median(times)}
    from torch.utils.benchmark import Timer

    timer = Timer("call()", globals={"call": call}, num_threads=torch.get_num_threads())
    measured = timer.blocked_autorange()
    return {"mean": 1e6 * measured.mean, "median": 1e6 * measured.median}


def _twice(case) -> dict:
    x = make_inputs(aa, case, seed=0, device=torch.device(DEVICE))["x"]
    aa["a"](x)  # builds
    return {"case": case.to_json(), "first": _said(lambda: aa["a"](x)), "second": _said(lambda: aa["a"](x))}


with torch.no_grad():
    _line = json.dumps([_twice(case) for case in aa.expand(CaseRequest(), DEVICE)])
with Path(os.environ["AA_OTHERS"]).open("a") as _file:
    _file.write(_line + "\n")
