"""Implementations out of libraries that want a GPU, on a machine that has none."""

import pytest
import torch

pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")

# A library as they are written: it looks for its GPU while it is imported, and refuses tensors that are elsewhere.
LIBRARY = """
import subprocess

import torch
import triton
import triton.language as tl

assert torch.cuda.is_available()
subprocess.run(["nvidia-smi"], check=True, capture_output=True)
SMS = torch.cuda.get_device_properties(torch.cuda.current_device()).multi_processor_count
TARGET = triton.runtime.driver.active.get_current_target().backend


@triton.autotune([triton.Config({"N": n}) for n in (64, 128)], key=["n"])
@triton.jit
def scale(x, out, factor, n, N: tl.constexpr):
    at = tl.program_id(0) * N + tl.arange(0, N)
    for start in range(0, n, tl.num_programs(0) * N):
        here = start.to(tl.int64) + at
        tl.store(out + here, tl.load(x + here, mask=here < n) * factor.to(tl.float32), mask=here < n)


def launch(x):
    assert x.is_cuda and TARGET == "cuda", "needs a tensor on the GPU"
    x = x.contiguous()
    out = torch.empty(x.shape, dtype=x.dtype, device="cuda")
    with torch.cuda.device(x.device):
        scale[(min(SMS, max(1, x.numel())),)](x, out, 2.0, x.numel())
    return out


class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return launch(x)

    @staticmethod
    def backward(ctx, grad):
        return launch(grad)
"""
OP = """
import torch
import kernellab as kl
from {module} import Double


def values(sizes, dtype, device, generator):
    return torch.randn(sizes, generator=generator, dtype=dtype, device=device)


@kl.op(args=dict(x=kl.tensor("N", values=values)), cases=kl.cases(N=[100000], dtype=["float32"]))
def double(x):
    return x + x


@double.impl("triton")
def _(x):
    return Double.apply(x)
"""


@pytest.fixture
def op_file(tmp_path):
    (tmp_path / "wants_gpu.py").write_text(LIBRARY)
    (tmp_path / "double.py").write_text(OP.format(module="wants_gpu"))
    return tmp_path / "double.py"


def test_a_library_that_wants_a_gpu_is_checked_in_the_interpreter(klab, op_file):
    done = klab("check", op_file, "--quick", "--json")
    (battery,) = [b for b in done.record["batteries"] if b["impl"] == "triton"]
    assert (battery["status"], battery["failures"]) == ("ok", [])
    assert battery["tried"] > 10
    assert battery["kinds"]["gradients"]["passed"] > 0
    assert any("is autotuned: each trial ran one of" in note for note in battery["notes"])
    assert done.code == 0


def test_its_backward_is_inspected_with_the_grid_of_a_gpu(klab, op_file):
    done = klab("inspect", op_file, "--impl", "triton", "--pass", "backward", "--arch", "sm_90", "--json")
    assert [kernel["grid"][0] for kernel in done.record["kernels"]] == [132, 132]  # its SMs


def test_a_library_that_is_missing_leaves_the_other_implementations_alone(klab, tmp_path):
    (tmp_path / "double.py").write_text(OP.format(module="no_such_library"))
    done = klab("check", tmp_path / "double.py", "--declared", "--impl", "manual,triton", "--json")
    assert done.result("manual")["derived"]["status"] == "ok"
    triton = done.result("triton")["derived"]
    assert triton["status"] == "unknown"
    reason = "no_such_library could not be imported: ModuleNotFoundError: No module named 'no_such_library'"
    assert triton["reason"].startswith(reason)
    assert done.code == 3
