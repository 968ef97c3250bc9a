"""kernellab: several implementations of one operation; which are right, and which is fastest.

The public API on one page. A name is loaded on first use: importing kernellab imports no torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from kernellab.base.version import VERSION

if TYPE_CHECKING:
    from kernellab import functional as functional
    from kernellab import nn as nn
    from kernellab import ops as ops
    from kernellab.api.benchmark import benchmark as benchmark
    from kernellab.api.check import check as check
    from kernellab.api.helpers import check_equal as check_equal
    from kernellab.api.helpers import get_device as get_device
    from kernellab.api.helpers import run_operation1 as run_operation1
    from kernellab.api.helpers import run_operation2 as run_operation2
    from kernellab.api.profile import profile as profile
    from kernellab.api.ptx import ptx as ptx
    from kernellab.api.run import Run as Run
    from kernellab.api.run import load as load
    from kernellab.api.run import run as run
    from kernellab.build import cpp as cpp
    from kernellab.build import cuda as cuda
    from kernellab.declaration.arguments import Cost as Cost
    from kernellab.declaration.arguments import index as index
    from kernellab.declaration.arguments import mask as mask
    from kernellab.declaration.arguments import optional as optional
    from kernellab.declaration.arguments import tensor as tensor
    from kernellab.declaration.case_table import cases as cases
    from kernellab.declaration.declare import op as op
    from kernellab.patching.patch import patch as patch
    from kernellab.profiler.module_ranges import auto_ranges as auto_ranges
    from kernellab.profiler.ranges import range as range
    from kernellab.profiler.ranges import range_pop as range_pop
    from kernellab.profiler.ranges import range_push as range_push
    from kernellab.profiler.steps import step as step
    from kernellab.vocabulary.value_kinds import angle_table as angle_table
    from kernellab.vocabulary.value_kinds import between as between
    from kernellab.vocabulary.value_kinds import log_probabilities as log_probabilities
    from kernellab.vocabulary.value_kinds import nonnegative as nonnegative
    from kernellab.vocabulary.value_kinds import positive as positive
    from kernellab.vocabulary.value_kinds import probabilities as probabilities
    from kernellab.vocabulary.value_kinds import scale as scale
    from kernellab.vocabulary.value_kinds import weights as weights
    from kernellab.workloads.mlp import run_mlp as run_mlp

__version__ = VERSION

_FUNCTIONS = {
    # declaring
    "op": "kernellab.declaration.declare",
    "tensor": "kernellab.declaration.arguments",
    "index": "kernellab.declaration.arguments",
    "mask": "kernellab.declaration.arguments",
    "optional": "kernellab.declaration.arguments",
    "cases": "kernellab.declaration.case_table",
    "Cost": "kernellab.declaration.arguments",
    # what the numbers of an input look like
    "positive": "kernellab.vocabulary.value_kinds",
    "nonnegative": "kernellab.vocabulary.value_kinds",
    "probabilities": "kernellab.vocabulary.value_kinds",
    "log_probabilities": "kernellab.vocabulary.value_kinds",
    "scale": "kernellab.vocabulary.value_kinds",
    "weights": "kernellab.vocabulary.value_kinds",
    "between": "kernellab.vocabulary.value_kinds",
    "angle_table": "kernellab.vocabulary.value_kinds",
    # runs and their results
    "run": "kernellab.api.run",
    "load": "kernellab.api.run",
    "Run": "kernellab.api.run",
    # one-call helpers
    "benchmark": "kernellab.api.benchmark",
    "check": "kernellab.api.check",
    "check_equal": "kernellab.api.helpers",
    "get_device": "kernellab.api.helpers",
    "ptx": "kernellab.api.ptx",
    "profile": "kernellab.api.profile",
    "run_mlp": "kernellab.workloads.mlp",
    "run_operation1": "kernellab.api.helpers",
    "run_operation2": "kernellab.api.helpers",
    # kernels for an existing model
    "patch": "kernellab.patching.patch",
    # names for the profiler
    "auto_ranges": "kernellab.profiler.module_ranges",
    "range": "kernellab.profiler.ranges",
    "range_pop": "kernellab.profiler.ranges",
    "range_push": "kernellab.profiler.ranges",
    "step": "kernellab.profiler.steps",
}
_MODULES = {
    "ops": "kernellab.ops",  # the shipped ops
    "functional": "kernellab.functional",  # the same for use in models
    "nn": "kernellab.nn",
    "cuda": "kernellab.build.cuda",  # building hand-written code
    "cpp": "kernellab.build.cpp",
}

__all__ = ["__version__", *_FUNCTIONS, *_MODULES]


def __getattr__(name: str) -> object:
    value: object
    if name in _MODULES:
        value = importlib.import_module(_MODULES[name])
    elif name in _FUNCTIONS:
        value = getattr(importlib.import_module(_FUNCTIONS[name]), name)
    else:
        raise AttributeError(f"module 'kernellab' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
