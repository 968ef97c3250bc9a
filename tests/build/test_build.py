"""Building hand-written code: C++ by the system compiler, CUDA C++ by NVRTC."""

import shutil
import subprocess
import sys
import time

import pytest
import torch

import kernellab as kl
from kernellab.base.errors import UserError
from kernellab.build.sources import fingerprint, with_includes
from support.klab import klab_env

ADD = """#include <cstdint>
#include "by.hpp"
extern "C" void add(const float* x, float* y, int64_t n, double more) {
  for (int64_t i = 0; i < n; ++i) y[i] = x[i] + BY + more;
}
"""


@pytest.fixture
def source(tmp_path):
    (tmp_path / "by.hpp").write_text("#define BY 1\n")
    (tmp_path / "add.cpp").write_text(ADD)
    return tmp_path / "add.cpp"


def test_a_cpp_function_is_built_and_called(source):
    x, y = torch.zeros(5), torch.empty(5)
    kl.cpp.function(source, "add")(x, y, 5, 0.5)
    assert y.tolist() == [1.5] * 5


@pytest.mark.clocked
def test_a_shipped_cpp_function_builds_in_a_fraction_of_a_second(tmp_path, monkeypatch):
    monkeypatch.setenv("KERNELLAB_CACHE", str(tmp_path))
    from kernellab.build.cpp import build

    began = time.perf_counter()
    build(kl.ops.square.file.parent / "cpp.cpp")
    assert time.perf_counter() - began < 3  # 0.4 s on an idle machine
    began = time.perf_counter()
    build(kl.ops.square.file.parent / "cpp.cpp")
    assert time.perf_counter() - began < 0.2


def test_a_changed_header_means_another_build(source):
    assert [p.name for p in with_includes(source)] == ["add.cpp", "by.hpp"]
    before = fingerprint(source)
    (source.parent / "by.hpp").write_text("#define BY 2\n")
    assert fingerprint(source) != before
    y = torch.empty(1)
    kl.cpp.function(source, "add")(torch.zeros(1), y, 1, 0.0)
    assert y.item() == 2


def test_what_does_not_compile_is_said_with_the_compilers_words(tmp_path):
    (tmp_path / "bad.cpp").write_text('extern "C" void f() { nonsense; }\n')
    with pytest.raises(UserError, match=r"bad\.cpp does not compile") as caught:
        kl.cpp.function(tmp_path / "bad.cpp", "f")()
    assert "nonsense" in caught.value.detail


def test_names_that_are_not_there(source, tmp_path):
    with pytest.raises(UserError, match='no extern "C" function sub'):
        kl.cpp.function(source, "sub")()
    with pytest.raises(UserError, match="no source file"):
        kl.cpp.function(tmp_path / "none.cpp", "f")
    with pytest.raises(UserError, match="no source file"):
        kl.cuda.kernel("none.cu", "f")


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


@pytest.mark.bare
def test_cuda_that_does_not_compile_is_said_with_nvrtcs_words(tmp_path):
    (tmp_path / "bad.cu").write_text("__global__ void f() { nonsense; }\n")
    with pytest.raises(UserError, match=r"bad\.cu does not compile for sm_80") as caught:
        kl.cuda.kernel(tmp_path / "bad.cu", "f").compile("sm_80")
    assert "nonsense" in caught.value.detail.splitlines()[0]


def test_a_cuda_kernel_wants_tensors_on_a_gpu(tmp_path):
    (tmp_path / "twice.cu").write_text(CUDA)
    with pytest.raises(UserError, match="needs its tensors on a GPU"):
        kl.cuda.kernel(tmp_path / "twice.cu", "twice<float>")(1, 1, torch.zeros(1))


@pytest.mark.bare
def test_host_code_without_nvcc_is_a_sentence(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    for name in ("CUDA_HOME", "CUDA_PATH"):
        monkeypatch.setenv(name, "/nowhere")
    with pytest.raises(UserError, match="needs nvcc"):
        kl.cuda.inline("", "", ["f"])
    assert "kl.cuda.kernel" in kl.cuda.nvcc_missing()


@pytest.mark.bare
def test_the_toolkit_is_hidden_where_it_is_meant_to_be(pytestconfig):
    if "bare and not gpu" not in pytestconfig.getoption("-m"):
        pytest.skip("only where tests/without_cuda_toolkit.sh runs")
    assert kl.cuda.nvcc_missing()
    nvcc = shutil.which("nvcc")
    assert nvcc is None or subprocess.run([nvcc], capture_output=True).returncode != 0


@pytest.mark.bare
def test_the_main_job_runs_without_a_toolkit(tmp_path):
    args = ["check", "square", "--shape", "16x40", "--impl", "manual,torch,cpp,triton,cuda", "--device", "cpu"]
    done = subprocess.run(
        [sys.executable, "-m", "kernellab", *args], cwd=tmp_path, env=klab_env(), capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "4 results right, 1 skipped." in done.stdout
