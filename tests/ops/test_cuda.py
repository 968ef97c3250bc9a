"""The implementations in CUDA C++: their kernels build for every architecture, without a GPU."""

import functools
import itertools
import re

import pytest
import torch

import kernellab as kl
from kernellab.accuracy.oracle import compute
from kernellab.build import cuda
from kernellab.capture.standin_cuda import replace_attribute
from kernellab.declaration.case import Case
from kernellab.trials.domain import is_defined
from kernellab.trials.trial import Trial
from kernellab.trials.trial_inputs import make_inputs
from support.ops import DTYPES, all_ops_with, options_of

# What distinguishes instantiations of one template with the same functors and switches.
_TYPES_AND_NUMBERS = re.compile(r"\b(float|__half|__nv_bfloat16|\d+)\b")
# The last dim of the first input, the other dims, and how its elements lie in memory.
TENSORS = [(64, 8, "contiguous"), (64, 8, "every second element"), (70_003, 2, "contiguous")]


@functools.cache
def launches(name):
    """The kernel and the arguments of one launch of every kernel template that an op has, backward included."""
    op = getattr(kl.ops, name)
    last_dim = next(iter(op.args.values())).dims[-1]
    launched = {}

    def record(kernel, grid, block, args, *_):
        launched.setdefault(_TYPES_AND_NUMBERS.sub("", kernel.name), []).append((kernel, args))

    with replace_attribute(cuda, "interceptor", record):
        for (cols, rows, layout), dtype, options in itertools.product(TENSORS, DTYPES[:3], options_of(op)):
            sizes = {dim: (rows,) if dim == "..." else rows for dim in op.dims} | {last_dim: cols}
            case = Case(sizes, str(dtype).removeprefix("torch."), options)
            if is_defined(op, case):
                trial = Trial("sizes", case, layouts={next(iter(op.args)): layout}, pass_name="backward")
                inputs = make_inputs(op, trial, seed=0, device=torch.device("cpu"), guarded=False).tensors
                compute(op, op["cuda"], inputs, trial)
    # The dtype alternates from kernel to kernel, so that more than one dtype is built.
    return [same[i % len(same)] for i, same in enumerate(launched.values())]


@pytest.mark.bare
@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_90", "sm_100"])
@pytest.mark.parametrize("name", all_ops_with("cuda"))
def test_cuda_kernels_build_without_a_toolkit_for_every_architecture_and_take_their_arguments(name, arch):
    assert len(launches(name)) >= 2
    for kernel, args in launches(name):
        cubin = kernel.compile(arch)
        assert cubin.code[:4] == b"\x7fELF"
        assert cubin.symbol.encode() in cubin.code
        kernel.verify_arguments(cubin, args)
