"""CUDA C++ built by NVRTC without a toolkit, and host code that needs nvcc."""

import shutil
import subprocess
import sys

import pytest
import torch

import kernellab as kl
from kernellab.base.errors import UserError
from kernellab.machinecode.cubin import read_cubin
from support.klab import klab_env

CUDA = """#include <cuda_fp16.h>
#include <cooperative_groups.h>
#include <cuda/barrier>
#include <mma.h>
template <typename T> __global__ void twice(T* x) { x[threadIdx.x] = x[threadIdx.x] + x[threadIdx.x]; }
"""


@pytest.mark.bare
def test_nvrtc_finds_every_cuda_header_it_needs(tmp_path):
    (tmp_path / "twice.cu").write_text(CUDA)
    built = kl.cuda.kernel(tmp_path / "twice.cu", "twice<__half>").compile("sm_90")
    assert b"twice" in built.code
    again = kl.cuda.kernel(tmp_path / "twice.cu", "twice<__half>").compile("sm_90")
    assert again == built


def test_instructions_of_one_architecture_alone_are_allowed_on_request(tmp_path):
    (tmp_path / "products.cu").write_text('__global__ void f() { asm volatile("wgmma.fence.sync.aligned;"); }\n')
    kernel = kl.cuda.kernel(tmp_path / "products.cu", "f", arch_specific=True)
    built = kernel.compile("sm_90")
    assert read_cubin(built.code).arch == "sm_90a"
    assert ".target sm_90a" in built.ptx
    with pytest.raises(UserError, match="does not compile for sm_90"):
        kl.cuda.kernel(tmp_path / "products.cu", "f").compile("sm_90")


@pytest.mark.bare
def test_a_compile_error_shows_nvrtcs_output(tmp_path):
    (tmp_path / "bad.cu").write_text("__global__ void f() { nonsense; }\n")
    with pytest.raises(UserError, match=r"bad\.cu does not compile for sm_80") as caught:
        kl.cuda.kernel(tmp_path / "bad.cu", "f").compile("sm_80")
    assert "nonsense" in caught.value.detail.splitlines()[0]


def test_a_launch_without_tensors_on_a_gpu_is_an_error(tmp_path):
    (tmp_path / "twice.cu").write_text(CUDA)
    with pytest.raises(UserError, match="needs its tensors on a GPU"):
        kl.cuda.kernel(tmp_path / "twice.cu", "twice<float>")(1, 1, torch.zeros(1))


@pytest.mark.bare
def test_host_code_without_nvcc_is_an_error_that_names_the_alternative(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    for name in ("CUDA_HOME", "CUDA_PATH"):
        monkeypatch.setenv(name, "/nowhere")
    with pytest.raises(UserError, match="needs nvcc"):
        kl.cuda.inline("", "", ["f"])
    assert "kl.cuda.kernel" in kl.cuda.nvcc_missing()


@pytest.mark.bare
def test_the_toolkit_is_hidden_where_the_tests_hide_it(pytestconfig):
    if "bare and not gpu" not in pytestconfig.getoption("-m"):
        pytest.skip("only where tests/without_cuda_toolkit.sh runs")
    assert kl.cuda.nvcc_missing()
    nvcc = shutil.which("nvcc")
    assert nvcc is None or subprocess.run([nvcc], capture_output=True).returncode != 0


@pytest.mark.bare
def test_checking_runs_without_a_toolkit(tmp_path):
    args = ["check", "square", "--shape", "16x40", "--impl", "manual,torch,cpp,triton,cuda", "--device", "cpu"]
    process = subprocess.run(
        [sys.executable, "-m", "kernellab", *args], cwd=tmp_path, env=klab_env(), capture_output=True, text=True
    )
    assert process.returncode == 0, process.stderr
    assert "4 results right, 1 skipped." in process.stdout
