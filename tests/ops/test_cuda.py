"""The implementations in CUDA C++: their kernels build for every architecture, without a GPU."""

import importlib
import itertools

import pytest
import torch

import kernellab as kl
from support.ops import DTYPES, ops_with, options_of

TENSORS = [lambda: torch.zeros(8, 64), lambda: torch.zeros(8, 64)[:, ::2], lambda: torch.zeros(2, 70_003)]


def instances(name, monkeypatch):
    """One instantiation of every kernel that an op launches for some tensors and dtypes."""
    op, module = getattr(kl.ops, name), importlib.import_module(f"kernellab.ops.{name}.cuda")
    launched = {}

    def record(instance):
        launched.setdefault(instance.partition("<")[0], []).append(instance)
        return lambda *args, **options: None

    monkeypatch.setattr(module, "kernel", record)
    for make, dtype, options in itertools.product(TENSORS, DTYPES[:3], options_of(op)):
        op["cuda"](make().to(dtype), **options)
    # The dtype alternates from kernel to kernel, so that more than one dtype is built.
    return [names[i % len(names)] for i, names in enumerate(launched.values())]


@pytest.mark.bare
@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_90", "sm_100"])
@pytest.mark.parametrize("name", ops_with("cuda"))
def test_cuda_kernels_build_without_a_toolkit_for_every_architecture(name, arch, monkeypatch):
    folder = getattr(kl.ops, name).file.parent
    kernels = instances(name, monkeypatch)
    assert len(kernels) >= 2
    for instance in kernels:
        built = kl.cuda.kernel(folder / "cuda.cu", instance).compile(arch)
        assert built.code[:4] == b"\x7fELF"
        assert built.symbol.encode() in built.code
