"""The implementations in CUDA C++: their kernels build for every architecture, without a GPU."""

import itertools
import re

import pytest
import torch

import kernellab as kl
from kernellab.build import cuda
from support.ops import DTYPES, all_ops_with, options_of

TENSORS = [lambda: torch.zeros(8, 64), lambda: torch.zeros(8, 64)[:, ::2], lambda: torch.zeros(2, 70_003)]
_TYPES_AND_NUMBERS = re.compile(r"\b(float|__half|__nv_bfloat16|\d+)\b")


def _index(x):
    """An index for every row."""
    return torch.zeros(len(x), dtype=torch.int64)


def kernels(name, monkeypatch):
    """One instantiation of every kernel that an op launches for some tensors and dtypes, backward included."""
    op = getattr(kl.ops, name)
    launched = {}

    def record(kernel, *launch):
        launched.setdefault(_TYPES_AND_NUMBERS.sub("", kernel.name), []).append(kernel)

    monkeypatch.setattr(cuda, "interceptor", record)
    for make, dtype, options in itertools.product(TENSORS, DTYPES[:3], options_of(op)):
        inputs = [_index(make()) if arg.is_index else make().to(dtype).requires_grad_() for arg in op.args.values()]
        result = op["cuda"](*inputs, **options)
        if result.requires_grad:
            torch.autograd.grad(result, [x for x in inputs if x.requires_grad], torch.ones_like(result))
    # The dtype alternates from kernel to kernel, so that more than one dtype is built.
    return [same[i % len(same)] for i, same in enumerate(launched.values())]


@pytest.mark.bare
@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_90", "sm_100"])
@pytest.mark.parametrize("name", all_ops_with("cuda"))
def test_cuda_kernels_build_without_a_toolkit_for_every_architecture(name, arch, monkeypatch):
    built = [kernel.compile(arch) for kernel in kernels(name, monkeypatch)]
    assert len(built) >= 2
    for cubin in built:
        assert cubin.code[:4] == b"\x7fELF"
        assert cubin.symbol.encode() in cubin.code
