"""The arguments of a launch are compared with the kernel's parameters before the driver misreads them."""

import threading
from unittest.mock import MagicMock, Mock

import cuda.core
import numpy as np
import pytest
import torch

import kernellab as kl
from kernellab.base.errors import UserError
from kernellab.build.parameters import entry_parameters, verify_arguments
from kernellab.capture.recorder import record_launches

SOURCE = """
struct Pair { double a, b; };
template <typename T>
__global__ void scaled(T* y, const T* x, float factor, long long n, int offset, double shift, bool twice, Pair pair) {
  long long i = threadIdx.x + offset;
  if (i < n) y[i] = x[i] * factor + shift + (twice ? pair.a : pair.b);
}
"""
X = torch.empty(8, device="meta")
GOOD = (X, X, np.float32(2), 8, 0, 1.5, True, np.float64(0))


@pytest.fixture(scope="module")
def scaled(tmp_path_factory):
    file = tmp_path_factory.mktemp("source") / "scaled.cu"
    file.write_text(SOURCE)
    return kl.cuda.kernel(file, "scaled<float>")


def launch(kernel, *args):
    with record_launches("sm_80") as launches:
        kernel(1, 32, *args)
    return launches


def changed(number, value):
    return (*GOOD[:number], value, *GOOD[number + 1 :])


def test_the_parameters_are_read_from_the_head_of_the_kernel(scaled):
    built = scaled.compile("sm_80")
    params = entry_parameters(built.ptx, built.symbol)
    assert [param.type for param in params[:6]] == ["u64", "u64", "f32", "u64", "u32", "f64"]
    assert params[-1].count == 16


@pytest.mark.parametrize(
    ("number", "value"),
    [
        *((0, 0), (0, X.double())),  # a null pointer; what a pointer points to is not declared
        *((3, np.int64(8)), (3, -1), (3, True + 7)),
        *((4, 2**31), (4, -(2**31)), (4, np.int32(-1)), (4, np.uint32(1))),
        *((5, np.float64(1)), (6, np.bool_(True)), (6, np.uint8(1)), (7, 3)),
    ],
)
def test_what_the_kernel_reads_as_it_was_meant_is_launched(scaled, number, value):
    assert len(launch(scaled, *changed(number, value))) == 1


@pytest.mark.parametrize(
    ("number", "value", "message"),
    [
        (2, 2.0, r"is a Python float, the kernel takes a float: it is passed as a double. Pass np.float32\(value\)"),
        (3, 2.0, "is a Python float, the kernel takes an integer or a pointer of 64 bits"),
        (2, 2, r"is a Python int, the kernel takes a float: pass np.float32\(value\)"),
        (5, 2, r"is a Python int, the kernel takes a double: pass np.float64\(value\)"),
        (2, True, "is a Python bool, the kernel takes a float"),
        (4, True, "is a Python bool, the kernel takes an integer of 32 bits: pass int"),
        (2, X, "is a tensor, the kernel takes a float"),
        (4, X, "is a tensor, the kernel takes an integer of 32 bits"),
        (5, X, "is a tensor, the kernel takes a double"),
        (4, 2**32, "is the Python int 4294967296, which does not fit"),
        (6, 256, "is the Python int 256, which does not fit"),
        (2, np.float64(2), r"is np.float64, the kernel takes a float: pass np.float32\(value\)"),
        (5, np.float32(2), r"is np.float32, the kernel takes a double: pass np.float64\(value\)"),
        (2, np.int32(2), "is np.int32, the kernel takes a float"),
        (3, np.int32(8), "is np.int32, the kernel takes an integer or a pointer of 64 bits"),
        (4, np.float32(1), "is np.float32, the kernel takes an integer of 32 bits"),
        (0, np.float64(0), "is np.float64, the kernel takes an integer or a pointer of 64 bits"),
    ],
)
def test_what_the_kernel_would_misread_is_refused_by_kernel_and_argument(scaled, number, value, message):
    with pytest.raises(UserError, match=rf"^CUDA kernel scaled<float>: argument {number} \(from 0\) {message}"):
        launch(scaled, *changed(number, value))


MAP = kl.cuda.TensorMap(torch.empty(8, 8), (8, 8))


def test_a_tensor_map_is_passed_as_a_struct_of_its_size(tmp_path):
    source = "struct alignas(64) Map {{ char bytes[{}]; }};\n__global__ void f(const __grid_constant__ Map, int) {{}}\n"
    kernels = {}
    for size in (64, 128):
        (tmp_path / f"{size}.cu").write_text(source.format(size))
        kernels[size] = kl.cuda.kernel(tmp_path / f"{size}.cu", "f")
    assert len(launch(kernels[128], MAP, 1)) == 1
    with pytest.raises(
        UserError, match=r"argument 0 \(from 0\) is a tensor map, the kernel takes a struct of 64 bytes"
    ):
        launch(kernels[64], MAP, 1)
    with pytest.raises(
        UserError, match=r"argument 1 \(from 0\) is a tensor map, the kernel takes an integer of 32 bits"
    ):
        launch(kernels[128], MAP, MAP)


@pytest.mark.parametrize(("args", "count"), [(GOOD[:-1], 7), ((*GOOD, 1), 9), ((), 0)])
def test_another_number_of_arguments_is_refused(scaled, args, count):
    with pytest.raises(UserError, match=rf"scaled<float> takes 8 arguments after grid and block, not {count}$"):
        launch(scaled, *args)


@pytest.fixture
def pretended_gpu(monkeypatch):
    """A GPU that launches nothing, and the kernel that it has loaded."""
    for name in ("Device", "ObjectCode", "launch"):
        monkeypatch.setattr(f"cuda.core.{name}", Mock())
    for name in ("_config", "_stream"):  # which remember what they return
        monkeypatch.setattr(f"kernellab.build.cuda.{name}", Mock())
    for name in ("current_stream", "device"):
        monkeypatch.setattr(f"torch.cuda.{name}", MagicMock())
    monkeypatch.setattr("torch.cuda.get_device_capability", lambda index: (8, 0))
    monkeypatch.setattr("kernellab.build.cuda._this_thread", threading.local())
    monkeypatch.setattr("kernellab.build.cuda._every_loaded_kernel", [])
    loaded = cuda.core.ObjectCode.from_cubin.return_value.get_kernel.return_value
    loaded.attributes.shared_size_bytes = 0
    return loaded


def on_gpu(args):
    tensor = Mock(spec=torch.Tensor, device=Mock(type="cuda", index=0), data_ptr=lambda: 0)
    return [tensor if isinstance(arg, torch.Tensor) else arg for arg in args]


@pytest.mark.parametrize(("static_bytes", "shared", "requests"), [(0, 49152, 0), (16, 49152, 1), (16, 49136, 0)])
def test_more_shared_memory_than_48_kib_static_and_dynamic_is_requested(
    scaled, monkeypatch, pretended_gpu, static_bytes, shared, requests
):
    pretended_gpu.attributes.shared_size_bytes = static_bytes
    kernel = kl.cuda.kernel(scaled.path, scaled.name)
    request = Mock()
    monkeypatch.setattr(kernel, "_request_shared", request)
    kernel(1, 32, *on_gpu(GOOD), shared=shared)
    assert request.call_count == requests


def test_on_a_gpu_launches_are_verified_until_one_is_accepted(scaled, monkeypatch, pretended_gpu):
    kernel = kl.cuda.kernel(scaled.path, scaled.name)
    verify = Mock(side_effect=kernel.verify_arguments)
    monkeypatch.setattr(kernel, "verify_arguments", verify)

    def launch_on_gpu(args):
        kernel(1, 32, *on_gpu(args))

    for _ in range(2):
        with pytest.raises(UserError, match="argument 2"):
            launch_on_gpu(changed(2, 2.0))
    assert verify.call_count == 2
    launch_on_gpu(GOOD)
    launch_on_gpu(GOOD)
    assert verify.call_count == 3


def test_the_parameters_of_another_kernel_in_the_same_file_are_not_taken():
    head = ".visible .entry {}(\n.param .{} a\n)\n{{ ret; }}\n"
    ptx = head.format("k1", "u64") + head.format("k", "f32")
    verify_arguments("k", "k", ptx, [np.float32(1)])
    verify_arguments("k1", "k1", ptx, [1])
