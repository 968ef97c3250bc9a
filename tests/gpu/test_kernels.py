"""The shipped GPU kernels on a real GPU: shapes, strides, dtypes, values, sizes, streams."""

import math
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

import kernellab as kl
from kernellab.accuracy.errors import measure, passes
from support.ops import LAYOUTS as SMALL_LAYOUTS
from support.ops import assert_agrees, gpu_kernels, options_of, takes

pytestmark = pytest.mark.gpu

DTYPES = [torch.float32, torch.float16, torch.bfloat16]
KERNELS = gpu_kernels()
ROWWISE = [(op, impl) for op, impl in KERNELS if getattr(kl.ops, op).reduces]
ELEMENTWISE = [kernel for kernel in KERNELS if kernel not in ROWWISE]
LAYOUTS = {
    **SMALL_LAYOUTS,
    "misaligned": lambda x: x.flatten()[1:].view(-1)[: (x.numel() - 1) // 7 * 7].view(7, -1),
    "3-D slice": lambda x: x[:60, :510].reshape(6, 10, 510)[:, 2:9, 1:500],
    "permuted": lambda x: x[:60, :510].reshape(6, 10, 510).permute(2, 0, 1),
}


def implementation(op, impl):
    """The implementation, or a skip: `cuda-inline` is built by nvcc."""
    if impl == "cuda-inline" and kl.cuda.nvcc_missing():
        pytest.skip("no nvcc")
    return getattr(kl.ops, op)[impl]


def check_agreement(op, impl, x, **options):
    result = implementation(op, impl)(x, **options)
    torch.cuda.synchronize()
    assert_agrees(getattr(kl.ops, op), result, x, **options)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("op", "impl"), KERNELS)
def test_any_layout(op, impl, layout, dtype):
    x = LAYOUTS[layout](torch.randn(66, 520, device="cuda", dtype=dtype))
    if not takes(getattr(kl.ops, op), x):
        pytest.skip("a scalar has no dim to reduce")
    for options in options_of(getattr(kl.ops, op)):
        check_agreement(op, impl, x, **options)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("cols", [1, 2, 7, 31, 64, 1000, 1024, 1025, 4096, 5000, 12288, 32768, 32769, 50257])
@pytest.mark.parametrize(("op", "impl"), ROWWISE)
def test_rows_of_any_width(op, impl, cols, dtype):
    check_agreement(op, impl, torch.randn(37, cols, device="cuda", dtype=dtype))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("cols", [65536, 65537, 100003, 131072, 131076, 262144, 300000, 524288])
@pytest.mark.parametrize(("op", "impl"), ROWWISE)
def test_wide_rows(op, impl, cols, dtype):
    check_agreement(op, impl, torch.randn(150, cols, device="cuda", dtype=dtype))


@pytest.mark.parametrize("cols", [5, 300, 1024, 9000, 40000, 70000, 140000, 600000])
@pytest.mark.parametrize(("op", "impl"), ROWWISE)
def test_special_rows(op, impl, cols):
    x = torch.randn(9, cols, device="cuda")
    x[0, : cols - 1] = -math.inf
    x[1] = -math.inf
    x[2, cols // 2] = math.nan
    x[3, cols // 3] = math.inf
    x[4] = torch.finfo(torch.float32).min
    x[5] += 1000
    x[6, ::2] = -math.inf
    x[7] = 3.0
    check_agreement(op, impl, x)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(("op", "impl"), ELEMENTWISE)
def test_elementwise_special_values(op, impl, dtype):
    values = [0.0, -0.0, 1e-30, -1e-30, 10.06, -10.06, 60.0, -60.0, 3e4, -3e4, math.inf, -math.inf, math.nan]
    x = torch.tensor(values, device="cuda").to(dtype).repeat(1001)
    for options in options_of(getattr(kl.ops, op)):
        check_agreement(op, impl, x, **options)


@pytest.mark.parametrize(("op", "impl"), KERNELS)
def test_more_than_two_to_the_31_elements(op, impl):
    if torch.cuda.mem_get_info()[0] < 40 << 30:
        pytest.skip("needs 40 GiB of free GPU memory")
    rows, cols = 70_000, 32_768  # 2.3e9 elements
    x = torch.empty(rows, cols, device="cuda", dtype=torch.bfloat16)
    for start in range(0, rows, 10_000):
        x[start : start + 10_000].normal_()
    y = implementation(op, impl)(x)
    for start in (0, rows // 2, rows - 100):  # below, across and beyond the 32-bit limit
        part = x[start : start + 100]
        oracle = getattr(kl.ops, op).reference(part.double())
        own = getattr(kl.ops, op)["torch"](part)
        rowwise = bool(getattr(kl.ops, op).reduces)
        errors, own_errors = (measure(t, oracle, rowwise=rowwise) for t in (y[start : start + 100], own))
        assert passes(errors, own_errors)


@pytest.mark.parametrize(("op", "impl"), KERNELS)
def test_a_small_tensor_with_huge_strides(op, impl):
    if torch.cuda.mem_get_info()[0] < 20 << 30:
        pytest.skip("needs 20 GiB of free GPU memory")
    base = torch.empty(5 << 30, device="cuda", dtype=torch.bfloat16)
    x = base.as_strided((5, 300), ((1 << 30) + 64, 1))
    x.copy_(torch.randn(5, 300, device="cuda"))
    check_agreement(op, impl, x)


@pytest.mark.parametrize(("op", "impl"), KERNELS)
def test_the_current_stream_is_used(op, impl):
    fn = implementation(op, impl)
    x = torch.randn(2048, 2048, device="cuda")
    fn(x)  # builds the kernel first
    stream = torch.cuda.Stream()
    torch.cuda.synchronize()
    late = torch.full_like(x, 7.0)
    with torch.cuda.stream(stream):
        torch.cuda._sleep(50_000_000)
        late.copy_(x)
        y = fn(late)  # reads `late` too early on any other stream
    stream.synchronize()
    assert torch.equal(y, fn(x))


@pytest.mark.parametrize(("op", "impl"), KERNELS)
def test_a_kernel_that_one_thread_has_loaded_is_launched_by_another(op, impl):
    """A thread that has made no CUDA call has no current context: autograd's threads are such."""
    fn = implementation(op, impl)
    x = torch.randn(64, 64, device="cuda")
    y = fn(x)
    with ThreadPoolExecutor(1) as thread:
        assert torch.equal(thread.submit(fn, x).result(), y)
