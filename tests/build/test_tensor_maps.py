"""Tensor maps: which tensors have one, what the driver is given to make it, and how a launch passes it."""

import ctypes
from unittest.mock import MagicMock, Mock

import numpy as np
import pytest
import torch
from cuda.bindings import driver as bindings

import kernellab as kl
from kernellab.base.errors import UserError
from kernellab.build import tensor_maps
from kernellab.build.tensor_maps import Encoded, TensorMap, launch

MATRIX = torch.zeros(40, 64, dtype=torch.bfloat16)


class Driver:
    """Keeps what it is asked to encode, and writes a mark where the struct belongs."""

    def __init__(self, status=0):
        self.status, self.calls = status, []

    def cuTensorMapEncodeTiled(self, *args):  # noqa: N802  the driver's name
        struct, dtype, dims, address, sizes, strides, block, *rest = args
        ctypes.memset(struct.value, 7, tensor_maps.STRUCT_BYTES)
        numbers = [list(sizes), list(strides)[: dims.value - 1], list(block)]
        self.calls.append((struct.value, dtype.value, address.value, *numbers, [x.value for x in rest[1:]]))
        return self.status


@pytest.fixture
def driver(monkeypatch):
    driver = Driver()
    monkeypatch.setattr(tensor_maps, "driver", lambda: driver)
    tensor_maps._encode.cache_clear()
    yield driver
    tensor_maps._encode.cache_clear()


@pytest.mark.parametrize(
    ("base", "block", "swizzle", "reason"),
    [
        (MATRIX, (16,), 128, "both need the same number of dims"),
        (torch.zeros(2, 2, 2, 2, 2, 16), (1, 1, 1, 1, 1, 16), 128, "at most 5"),
        (torch.zeros(8, 8, dtype=torch.complex64), (8, 8), 128, "there is none for complex64"),
        (MATRIX, (257, 64), 128, "1 to 256 elements"),
        (MATRIX, (0, 64), 128, "1 to 256 elements"),
        (MATRIX, (8, 128), 128, "a row of a block has 256 bytes"),
        (MATRIX, (8, 4), 128, "a row of a block has 8 bytes"),
        (MATRIX, (8, 64), 96, "rows are permuted within 0, 32, 64, 128 bytes"),
        (MATRIX.T, (64, 16), 128, "its last dim is not contiguous"),
        (MATRIX[:, 1:], (8, 32), 128, "must be multiples of 16"),
        (MATRIX.flatten()[:2552].view(44, 58), (8, 32), 128, "must be multiples of 16"),
        (MATRIX[:1].expand(40, 64), (8, 64), 128, "must be multiples of 16"),
        (MATRIX[:0], (8, 64), 128, "the tensor is empty"),
    ],
)
def test_a_tensor_that_the_copy_engine_cannot_read_is_refused_with_the_reason(base, block, swizzle, reason):
    with pytest.raises(UserError, match=reason):
        TensorMap(base, block, swizzle)


def test_the_driver_gets_sizes_and_strides_from_the_last_dim_on(driver):
    heads = torch.zeros(2, 24, 3, 64, dtype=torch.float16).transpose(1, 2)
    TensorMap(heads, (1, 1, 16, 32), swizzle_bytes=64).encode()
    ((struct, dtype, address, sizes, strides, block, flags),) = driver.calls
    assert struct % tensor_maps.STRUCT_ALIGNMENT == 0
    assert dtype == bindings.CUtensorMapDataType.CU_TENSOR_MAP_DATA_TYPE_FLOAT16
    assert (address, sizes, block) == (heads.data_ptr(), [64, 24, 3, 2], [32, 16, 1, 1])
    assert strides == [3 * 64 * 2, 64 * 2, 24 * 3 * 64 * 2]  # in bytes; the last dim has none
    assert flags == [
        bindings.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
        bindings.CUtensorMapSwizzle.CU_TENSOR_MAP_SWIZZLE_64B,
        bindings.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
        bindings.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
    ]


@pytest.mark.parametrize("name", tensor_maps._DTYPES)
def test_dtypes_have_the_numbers_of_the_driver(name):
    expected = getattr(bindings.CUtensorMapDataType, f"CU_TENSOR_MAP_DATA_TYPE_{name.upper()}")
    assert tensor_maps._DTYPES[name] == expected


def test_the_stride_of_a_dim_of_one_element_does_not_matter(driver):
    TensorMap(torch.zeros(64, dtype=torch.bfloat16).as_strided((1, 64), (3, 1)), (8, 64)).encode()
    assert driver.calls[0][4] == [16]


def test_a_tensor_is_encoded_once(driver):
    first = TensorMap(MATRIX, (8, 64)).encode()
    assert TensorMap(MATRIX.view(40, 64), (8, 64)).encode() is first
    assert TensorMap(MATRIX[8:], (8, 64)).encode() is not first
    assert len(driver.calls) == 2


def test_what_the_driver_refuses_is_an_error(driver):
    driver.status = 1
    with pytest.raises(UserError, match=r"no tensor map of \(40, 64\) in blocks of \(8, 64\): error 1"):
        TensorMap(MATRIX, (8, 64)).encode()


# Launches ------------------------------------------------------------------------------------------------


@pytest.fixture
def launched(monkeypatch):
    """What the driver finds when a kernel is launched: its configuration, and the bytes of each argument."""
    found = []

    def read(config, kernel, addresses, extra):
        places = (ctypes.c_void_p * 6).from_address(addresses)
        sizes = (128, 8, 8, 4, 1, 8)
        found.append(
            (config, int(kernel), [ctypes.string_at(at, size) for at, size in zip(places, sizes, strict=True)])
        )
        return (bindings.CUresult.CUDA_SUCCESS,)

    monkeypatch.setattr(bindings, "cuLaunchKernelEx", read)
    return found


VALUES = (TensorMap(MATRIX, (8, 64)), -2, 1.5, np.float32(0.5), True, np.int64(3))


def test_a_launch_passes_the_struct_and_numbers_as_they_are(driver, launched):
    launch(77, 5, (3, 2), 128, 4096, None, VALUES)
    ((config, kernel, arguments),) = launched
    assert arguments == [
        bytes([7] * 128),
        *(np.array(x).tobytes() for x in (np.int64(-2), np.float64(1.5), np.float32(0.5), True, np.int64(3))),
    ]
    assert (kernel, int(config.hStream), config.sharedMemBytes, config.numAttrs) == (77, 5, 4096, 0)
    assert [config.gridDimX, config.gridDimY, config.gridDimZ] == [3, 2, 1]
    assert [config.blockDimX, config.blockDimY, config.blockDimZ] == [128, 1, 1]


def test_a_grid_counts_clusters(driver, launched):
    launch(77, 5, (3, 2), (64, 2), 0, (2, 1), VALUES)
    ((config, *_),) = launched
    (attribute,) = config.attrs
    dims = attribute.value.clusterDim
    assert [config.gridDimX, config.gridDimY, config.gridDimZ] == [6, 2, 1]
    assert attribute.id == bindings.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
    assert [dims.x, dims.y, dims.z] == [2, 1, 1]


def test_a_failed_launch_is_an_error_that_names_it(driver, monkeypatch):
    failure = bindings.CUresult.CUDA_ERROR_INVALID_VALUE
    monkeypatch.setattr(bindings, "cuLaunchKernelEx", lambda *args: (failure,))
    with pytest.raises(UserError, match="the launch failed: CUDA_ERROR_INVALID_VALUE"):
        launch(77, 5, 1, 1, 0, None, VALUES)


def test_a_kernel_with_a_tensor_map_is_launched_by_the_driver(driver, launched, monkeypatch, tmp_path):
    parameters = "const __grid_constant__ Map, long long, double, float, bool, long long"
    source = f"struct alignas(64) Map {{ char bytes[128]; }};\n__global__ void f({parameters}) {{}}\n"
    (tmp_path / "f.cu").write_text(source)
    kernel = kl.cuda.kernel(tmp_path / "f.cu", "f")
    for name in ("current_stream", "device"):
        monkeypatch.setattr(f"torch.cuda.{name}", MagicMock())
    torch.cuda.current_stream.return_value.cuda_stream = 9
    monkeypatch.setattr(kernel, "_load", lambda index: Mock(handle=66))
    monkeypatch.setattr("kernellab.build.cuda._arch", lambda index: "sm_90")
    kernel._shared_limits[0] = 49152
    on_gpu = Mock(spec=torch.Tensor, device=Mock(type="cuda", index=0))
    described = TensorMap(MATRIX, (8, 64))
    object.__setattr__(described, "base", on_gpu)  # which says where to launch
    monkeypatch.setattr(TensorMap, "encode", lambda self: Encoded(struct, ctypes.addressof(struct)))
    struct = ctypes.create_string_buffer(b"map", 128)
    kernel(1, 32, described, *VALUES[1:])
    ((config, handle, arguments),) = launched
    assert (handle, int(config.hStream), arguments[0]) == (66, 9, struct.raw)
