"""Ops whose implementations launch kernels in every manner that capturing has to record."""

import functools

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

import kernellab as kl


@kl.op(cases=kl.cases(shape=[(64, 256)], dtype=["float32"]))
def double(x):
    return x + x


@triton.jit
def twice(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + at, add(tl.load(x_ptr + at, mask=at < n), 2.0), mask=at < n)


@triton.jit
def add(x, factor):
    return x * factor


def launch(x, block=256):
    y = torch.empty_like(x)
    twice[(triton.cdiv(x.numel(), block),)](x, y, x.numel(), block)
    return y


@double.impl("triton")
def _(x):
    assert x.is_cuda
    assert torch.empty(3, device=x.device).device == x.device
    with torch.cuda.device(x.device):
        return launch(x)


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return launch(x)

    @staticmethod
    def backward(ctx, grad):
        return launch(grad, block=512)


@double.impl("triton-autograd")
def _(x):
    return Doubled.apply(x)


@triton.autotune(
    [triton.Config({"BLOCK": block}, num_warps=warps) for block, warps in ((128, 2), (256, 4), (4096, 4))], key=["n"]
)
@triton.jit
def tuned(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    tl.static_assert(BLOCK <= 1024, "too wide")
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + at, tl.load(x_ptr + at, mask=at < n) * 2, mask=at < n)


@double.impl("triton-tuned")
def _(x):
    y = torch.empty_like(x)
    tuned[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, y, x.numel())
    return y


@triton.jit
def twice_by_tma(x_tiles, y_tiles, M: tl.constexpr, N: tl.constexpr):
    at = [tl.program_id(0) * M, tl.program_id(1) * N]
    y_tiles.store(at, x_tiles.load(at) * 2)


@double.impl("triton-tma")
def _(x):
    y = torch.empty_like(x)
    tiles = [TensorDescriptor.from_tensor(t, [16, 64]) for t in (x, y)]
    twice_by_tma[(x.size(0) // 16, x.size(1) // 64)](*tiles, 16, 64)
    return y


@torch.library.custom_op("kernellab_tests::double", mutates_args=())
def custom(x: torch.Tensor) -> torch.Tensor:
    assert x.is_cuda
    return launch(x)


@custom.register_fake
def _(x):
    return torch.empty_like(x)


custom.register_autograd(lambda ctx, grad: custom(grad))


@double.impl("triton-custom")
def _(x):
    return custom(x)


@torch.library.triton_op("kernellab_tests::double_triton", mutates_args=())
def wrapped(x: torch.Tensor) -> torch.Tensor:
    y = torch.empty_like(x)
    torch.library.wrap_triton(twice)[(triton.cdiv(x.numel(), 256),)](x, y, x.numel(), 256)
    return y


@double.impl("triton-op")
def _(x):
    return wrapped(x)


@functools.cache
def sms():
    return torch.cuda.get_device_properties(torch.cuda.current_device()).multi_processor_count


@double.impl("triton-persistent")
def _(x):
    """The grid is the number of SMs, asked for once and kept whatever the device."""
    y = torch.empty_like(x)
    for _ in range(3):
        twice[(sms(),)](x, y, x.numel(), 256)
    return y


@double.impl("triton-looks")
def _(x):
    return launch(x) if x.sum().item() > 0 else x


@double.impl("triton-too-much")
def _(x):
    y = torch.empty_like(x)
    staged[(1,)](x, y, 128, num_warps=8)
    return y


@triton.jit
def staged(x_ptr, y_ptr, N: tl.constexpr):
    """At N = 128 two operands of 64 KB: more shared memory than a block of sm_86 has, not of sm_90."""
    at = tl.arange(0, N)[:, None] * N + tl.arange(0, N)[None, :]
    x = tl.load(x_ptr + at)
    tl.store(y_ptr + at, tl.dot(x, x))


@triton.jit
def misspelled(x_ptr, y_ptr, LARGEST: tl.constexpr, BLOCK: tl.constexpr):
    """Above a size an instruction that ptxas does not know."""
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at)
    if BLOCK > LARGEST:
        x = tl.inline_asm_elementwise("frobnicate.f32 $0, $1;", "=f,f", [x], tl.float32, is_pure=True, pack=1)
    tl.store(y_ptr + at, x)


@double.impl("triton-dies")
def _(x):
    import os

    os.abort()
