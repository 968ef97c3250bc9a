"""Launches are captured without a GPU, for any architecture, and nothing is left changed afterwards."""

import pytest
import torch

import kernellab as kl
from kernellab.base.errors import UserError
from kernellab.build import cuda
from kernellab.capture.recorder import capture, record_launches
from kernellab.machinecode.cubin import read_cubin
from support.meta import meta


@pytest.mark.bare
@pytest.mark.parametrize("impl", ["triton", "cuda"])
@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_90", "sm_100", "sm_120"])
def test_shipped_kernels_compile_for_any_architecture(impl, arch):
    (launch,) = capture(kl.ops.softmax[impl], [meta(512, 1024)], arch=arch)
    assert read_cubin(launch.cubin).arch.rstrip("af") == launch.arch == arch
    assert f".target {arch}" in launch.code["ptx"]
    assert launch.blocks * launch.threads >= 512 * 8  # 128 elements per thread at most


@pytest.mark.parametrize("impl", ["triton", "cuda"])
def test_a_tensor_that_a_kernel_gets_twice_is_counted_once(impl):
    (launch,) = capture(kl.ops.softmax[impl], [meta(512, 1024)], arch="sm_90")  # its kernels also take two inputs
    assert sum(parameter.bytes or 0 for parameter in launch.parameters) == 2 * 512 * 1024 * 4


def test_an_architecture_never_gets_the_code_of_another():
    """Triton caches by device, and so may authors: each architecture is another device."""
    x = meta(4096, 32768)
    launches = {arch: capture(kl.ops.softmax["cuda"], [x], arch=arch)[0] for arch in ("sm_80", "sm_90", "sm_80")}
    assert launches["sm_80"].cluster == (1, 1, 1)
    assert launches["sm_90"].cluster != (1, 1, 1)  # only Hopper and later have clusters
    assert launches["sm_90"].grid[0] == 4096 * launches["sm_90"].cluster[0]  # blocks, not clusters


def test_a_tensor_map_is_described_by_its_tensor_and_its_blocks(tmp_path):
    source = "struct alignas(64) Map { char bytes[128]; };\n__global__ void f(const __grid_constant__ Map, float*) {}\n"
    (tmp_path / "f.cu").write_text(source)
    x = meta(40, 64)
    with record_launches("sm_90") as launches:
        kl.cuda.kernel(tmp_path / "f.cu", "f")(1, 32, kl.cuda.TensorMap(x, (8, 32)), x)
    described, pointer = launches[0].parameters
    assert (described.type, described.bytes, pointer.bytes) == ("tensor map", 40 * 64 * 4, 0)
    assert described.value == "descriptor of a pointer to float32, 40×64, aligned to 16, in blocks of 8×32"


def test_the_backward_pass_of_an_autograd_function_is_captured(double):
    x = meta(64, 256, requires_grad=True)
    with record_launches("sm_90") as launches:
        y = double["triton-autograd"](x)
        torch.autograd.grad(y, x, torch.empty_like(y))
    assert [launch.constants["BLOCK"] for launch in launches] == [256, 512]


def test_equal_launches_are_counted(double):
    (launch,) = capture(double["triton-persistent"], [meta(64, 256)], arch="sm_90")
    assert (launch.times, launch.grid, launch.gpu) == (3, (132, 1, 1), "H100 SXM5 80GB")


def test_each_launch_is_reported_as_it_happens(double):
    reported = []
    with record_launches("sm_90", lambda launch: reported.append(launch.kernel)) as launches:
        double["triton-persistent"](meta(64, 256))
    assert (len(reported), len(launches)) == (3, 1)


def test_nothing_is_left_changed_after_capturing(double):
    # From the op's own globals: importing the file again would register its operators again.
    tuned = double["triton-tuned"].fn.__globals__["tuned"]
    available = torch.cuda.is_available()
    capture(double["triton-tuned"], [meta(64, 256)], arch="sm_90")
    assert not tuned.cache
    assert cuda.interceptor is None
    assert torch.cuda.is_available() == available
    assert meta(1).device.type == "meta"


def test_an_implementation_that_reads_values_fails(double):
    with pytest.raises(RuntimeError, match="meta tensors"):
        capture(double["triton-looks"], [meta(64, 256)], arch="sm_90")


def test_a_cubin_for_another_architecture_is_refused(monkeypatch):
    """A cache might return another architecture's code: it must not be shown."""
    compile_kernel = cuda.Kernel.compile
    monkeypatch.setattr(cuda.Kernel, "compile", lambda kernel, arch: compile_kernel(kernel, "sm_80"))
    with pytest.raises(UserError, match="was compiled for sm_80 instead of sm_90"):
        capture(kl.ops.square["cuda"], [meta(64, 256)], arch="sm_90")
