"""Tensors as the copy engine of Hopper and later GPUs sees them, and launches of kernels that take them.

A kernel declares the parameter as `const __grid_constant__` struct of 128 bytes, aligned to 64. cuda-core's `launch`
takes no such argument unless it made it itself, and what it makes has to satisfy conditions that the driver does not
ask for. So the driver is called here.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kernellab.base.errors import UserError

if TYPE_CHECKING:
    import torch

Dim = int | tuple[int, ...]
STRUCT_BYTES, STRUCT_ALIGNMENT = 128, 64
_MOST_ROWS, _MOST_DIMS, _ALIGNMENT = 256, 5, 16
# The driver's CUtensorMapDataType and CUtensorMapSwizzle.
_DTYPES = {"uint8": 0, "int32": 3, "int64": 5, "float16": 6, "float32": 7, "float64": 8, "bfloat16": 9}
_SWIZZLES = {0: 0, 32: 1, 64: 2, 128: 3}
_L2_FETCHES_256_BYTES = 3


@dataclass(frozen=True, eq=False)
class TensorMap:
    """A tensor that a kernel copies in blocks of `block_shape`, which has as many dims as the tensor.

    The last dim is contiguous. Elements of a block outside the tensor are read as 0 and not written. A block lies in
    shared memory as rows of its last dim, whose pieces of 16 bytes are permuted (`swizzle_bytes`): the row must not be
    longer than that. 0: as they are.
    """

    base: torch.Tensor
    block_shape: tuple[int, ...]
    swizzle_bytes: int = 128

    def __post_init__(self) -> None:
        reason = self._unsuitable()
        if reason is not None:
            raise UserError(f"no tensor map of {tuple(self.base.shape)} in blocks of {self.block_shape}: {reason}")

    def _unsuitable(self) -> str | None:
        """What the driver would answer with "invalid value"; None if nothing."""
        base, block, size = self.base, self.block_shape, self.base.element_size()
        if _dtype_name(base) not in _DTYPES:
            return f"there is none for {_dtype_name(base)}"
        if len(block) != base.dim() or not 1 <= base.dim() <= _MOST_DIMS:
            return f"both need the same number of dims, at most {_MOST_DIMS}"
        if base.numel() == 0:
            return "the tensor is empty"
        if not all(1 <= n <= _MOST_ROWS for n in block):
            return f"a dim of a block has 1 to {_MOST_ROWS} elements"
        if self.swizzle_bytes not in _SWIZZLES:
            return f"rows are permuted within {', '.join(map(str, _SWIZZLES))} bytes"
        row = block[-1] * size
        if row % _ALIGNMENT or (self.swizzle_bytes and row > self.swizzle_bytes):
            return f"a row of a block has {row} bytes: not a multiple of {_ALIGNMENT}, or more than swizzle_bytes"
        if base.stride(-1) != 1 and base.shape[-1] != 1:
            return "its last dim is not contiguous"
        strides = [stride * size for n, stride in zip(base.shape[:-1], base.stride()[:-1], strict=True) if n > 1]
        if base.data_ptr() % _ALIGNMENT or any(stride % _ALIGNMENT or stride <= 0 for stride in strides):
            return f"its address and its strides in bytes must be multiples of {_ALIGNMENT}"
        return None

    def encode(self) -> Encoded:
        """The driver's struct."""
        base = self.base
        size = base.element_size()
        # The stride of a dim of one element is anything.
        strides = tuple(
            stride * size if n > 1 else _ALIGNMENT
            for n, stride in zip(base.shape[:-1], base.stride()[:-1], strict=True)
        )
        name = _dtype_name(base)
        return _encode(name, base.data_ptr(), tuple(base.shape), strides, self.block_shape, self.swizzle_bytes)


def _dtype_name(tensor: torch.Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


@dataclass(frozen=True)
class Encoded:
    """A struct that lies at an address in this memory."""

    memory: ctypes.Array[ctypes.c_char]
    address: int


# The struct depends on nothing else.
@functools.lru_cache(maxsize=4096)
def _encode(
    dtype: str, address: int, shape: tuple[int, ...], strides: tuple[int, ...], block: tuple[int, ...], swizzle: int
) -> Encoded:
    """`strides` in bytes, without that of the last dim."""
    memory = ctypes.create_string_buffer(STRUCT_BYTES + STRUCT_ALIGNMENT)
    here = -(-ctypes.addressof(memory) // STRUCT_ALIGNMENT) * STRUCT_ALIGNMENT
    dims = len(shape)
    # The driver counts dims from the last.
    status = driver().cuTensorMapEncodeTiled(
        ctypes.c_void_p(here),
        ctypes.c_int(_DTYPES[dtype]),
        ctypes.c_uint32(dims),
        ctypes.c_void_p(address),
        (ctypes.c_uint64 * dims)(*reversed(shape)),
        (ctypes.c_uint64 * max(dims - 1, 1))(*reversed(strides)),
        (ctypes.c_uint32 * dims)(*reversed(block)),
        (ctypes.c_uint32 * dims)(*[1] * dims),
        ctypes.c_int(0),  # not interleaved
        ctypes.c_int(_SWIZZLES[swizzle]),
        ctypes.c_int(_L2_FETCHES_256_BYTES),
        ctypes.c_int(0),  # what is outside is 0
    )
    if status != 0:
        raise UserError(f"the driver makes no tensor map of {shape} in blocks of {block}: error {status}")
    return Encoded(memory, here)


@functools.cache
def driver() -> ctypes.CDLL:
    return ctypes.CDLL("libcuda.so.1")


# Launches ------------------------------------------------------------------------------------------------


def launch(
    kernel: int, stream: int, grid: Dim, block: Dim, shared: int, cluster: Dim | None, values: Sequence[object]
) -> None:
    """Launch a kernel of which `values` are the arguments: tensors as addresses. `grid` counts clusters."""
    from cuda.bindings import driver as bindings

    config = bindings.CUlaunchConfig()
    sizes = _three(cluster or 1)
    config.gridDimX, config.gridDimY, config.gridDimZ = (n * m for n, m in zip(_three(grid), sizes, strict=True))
    config.blockDimX, config.blockDimY, config.blockDimZ = _three(block)
    config.sharedMemBytes = shared
    config.hStream = stream
    if cluster is not None:
        attribute = bindings.CUlaunchAttribute()
        attribute.id = bindings.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
        dims = attribute.value.clusterDim
        dims.x, dims.y, dims.z = sizes
        config.attrs = [attribute]
        config.numAttrs = 1
    with_memory = [_in_memory(value) for value in values]
    addresses = (ctypes.c_void_p * len(values))(*[address for address, _ in with_memory])
    (status,) = bindings.cuLaunchKernelEx(config, bindings.CUfunction(kernel), ctypes.addressof(addresses), 0)
    if status != bindings.CUresult.CUDA_SUCCESS:
        raise UserError(f"the launch failed: {status.name}")


def _in_memory(value: object) -> tuple[int, object]:
    """Where the driver reads an argument, and what keeps it there."""
    import numpy as np

    match value:
        case TensorMap():
            encoded = value.encode()
            return encoded.address, encoded
        case bool():
            place: object = ctypes.c_bool(value)
        case np.generic():
            place = ctypes.create_string_buffer(value.tobytes(), value.nbytes)
        case int():
            place = ctypes.c_int64(value)
        case float():
            place = ctypes.c_double(value)
        case _:
            raise UserError(f"a kernel takes no {type(value).__name__}")
    return ctypes.addressof(place), place  # type: ignore[arg-type]


def _three(dim: Dim) -> tuple[int, int, int]:
    x, y, z = (*((dim,) if isinstance(dim, int) else dim), 1, 1)[:3]
    return x, y, z
