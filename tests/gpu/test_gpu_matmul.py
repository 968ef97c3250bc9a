"""The kernels of matmul on a real GPU: layouts, sizes, strides, tf32, streams, steps, and what max-autotune tried."""

import itertools
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

import kernellab as kl
from kernellab.accuracy.errors import measure, passes
from kernellab.ops.matmul.precision import product_of_cut_operands
from support.products import LAYOUTS, assert_is_product, operands

pytestmark = pytest.mark.gpu

IMPLS = ("triton", "cuda")
DTYPES = [torch.float32, torch.float16, torch.bfloat16]
SIZES = [(1, 1, 1), (1, 4096, 1), (3, 1, 5), (127, 129, 131), (128, 256, 512), (1000, 1001, 1002), (4100, 520, 264)]


def product(impl, a, b, **options):
    c = kl.ops.matmul[impl](a, b, **options)
    torch.cuda.synchronize()
    return c


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("layouts", itertools.product(LAYOUTS, LAYOUTS), ids=str)
@pytest.mark.parametrize("impl", IMPLS)
def test_any_layout(impl, layouts, dtype):
    for sizes in ((264, 328, 200), (33, 65, 17)):
        a, b = operands(*sizes, dtype, layouts, device="cuda")
        assert_is_product(product(impl, a, b), a, b)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("impl", IMPLS)
def test_any_size(impl, sizes, dtype):
    a, b = operands(*sizes, dtype, device="cuda")
    assert_is_product(product(impl, a, b), a, b)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
@pytest.mark.parametrize("impl", IMPLS)
def test_large_products_as_transformers_have_them(impl, dtype):
    a, b = operands(4096, 4096, 14336, dtype, device="cuda")
    c, rows = product(impl, a, b), slice(4000, 4096)
    assert_is_product(c[rows].contiguous(), a[rows], b)


@pytest.mark.parametrize("impl", IMPLS)
def test_gradients_are_the_same_each_time_and_right(impl):
    a, b = (x.requires_grad_() for x in operands(520, 264, 392, torch.bfloat16, device="cuda"))
    upstream = torch.randn(520, 392, device="cuda").bfloat16()
    first, second = (torch.autograd.grad(kl.ops.matmul[impl](a, b), (a, b), upstream) for _ in range(2))
    assert all(torch.equal(x, y) for x, y in zip(first, second, strict=True))
    a, b = a.detach(), b.detach()
    assert_is_product(first[0], upstream, b.t())
    assert_is_product(first[1], a.t(), upstream)


@pytest.mark.parametrize("layouts", itertools.product(LAYOUTS, LAYOUTS), ids=str)
def test_tf32_is_as_accurate_as_cutting_the_operands(layouts):
    a, b = operands(264, 1000, 200, torch.float32, layouts, device="cuda")
    assert_is_product(product("cuda", a, b, fp32_precision="tf32"), a, b, tf32=True)


@pytest.mark.parametrize("impl", ["cuda", "triton-tf32", "torch"])
@pytest.mark.parametrize("seed", range(4))
def test_the_promise_of_tf32_holds_against_pytorch_and_against_cut_operands(impl, seed):
    """The limit of PyTorch's own product is what cutting costs, that of the others what PyTorch is off by."""
    generator = torch.Generator("cuda").manual_seed(seed)
    a, b = (torch.randn(512, 512, device="cuda", generator=generator) for _ in range(2))
    exact = a.double() @ b.double()
    own = product("torch", a, b, fp32_precision="tf32")
    peer = product_of_cut_operands(a, b) if impl == "torch" else own
    errors, limit = (measure(c, exact, rowwise=True) for c in (product(impl, a, b, fp32_precision="tf32"), peer))
    assert passes(errors, limit), (errors, limit)
    assert errors.max > 100, "its operands kept all bits: this is not tf32"


STEPS = [i.name for i in kl.ops.matmul.impls.values() if i.study and i.name != "triton-tf32"]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("step", STEPS)
def test_every_step_computes_the_product(step, dtype):
    tensor_cores = step in ("cuda-tensor", "cuda-stages", "cuda-swizzle")
    tf32 = tensor_cores and dtype == torch.float32
    options = {"fp32_precision": "tf32"} if tf32 else {}
    for sizes in ((512, 256, 768), (129, 67, 131), (1, 1, 1)):
        a, b = operands(*sizes, dtype, device="cuda")
        a, b = a.contiguous(), b.contiguous()
        assert_is_product(product(step, a, b, **options), a, b, tf32=tf32)


@pytest.mark.parametrize("impl", IMPLS)
def test_more_than_two_to_the_31_elements(impl):
    if torch.cuda.mem_get_info()[0] < 30 << 30:
        pytest.skip("needs 30 GiB of free GPU memory")
    rows, depth, cols = 70_000, 32_768, 64  # 2.3e9 elements of a
    a = torch.empty(rows, depth, device="cuda", dtype=torch.bfloat16)
    for start in range(0, rows, 10_000):
        a[start : start + 10_000].normal_()
    b = torch.randn(depth, cols, device="cuda").bfloat16()
    c = product(impl, a, b)
    for start in (0, 65_500, rows - 100):  # below, across and beyond the 32-bit limit
        part = a[start : start + 100]
        assert_is_product(c[start : start + 100], part, b)
    c = product(impl, a.t(), torch.randn(rows, cols, device="cuda").bfloat16())
    assert c.shape == (depth, cols)
    assert c.isfinite().all()


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("impl", IMPLS)
def test_a_small_matrix_with_huge_strides(impl, transposed):
    if torch.cuda.mem_get_info()[0] < 20 << 30:
        pytest.skip("needs 20 GiB of free GPU memory")
    base = torch.empty(5 << 30, device="cuda", dtype=torch.bfloat16)
    a = base.as_strided((5, 304), ((1 << 30) + 64, 1))
    a.copy_(torch.randn(5, 304, device="cuda"))
    a = a.t() if transposed else a
    b = torch.randn(a.shape[1], 72, device="cuda").bfloat16()
    assert_is_product(product(impl, a, b), a, b)


@pytest.mark.parametrize("impl", IMPLS)
def test_the_current_stream_is_used(impl):
    a, b = operands(1024, 1024, 1024, torch.bfloat16, device="cuda")
    product(impl, a, b)  # builds the kernel first
    stream = torch.cuda.Stream()
    late = torch.full_like(a, 7.0)
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(50_000_000)
        late.copy_(a)
        c = kl.ops.matmul[impl](late, b)  # reads `late` too early on any other stream
    stream.synchronize()
    assert torch.equal(c, product(impl, a, b))


@pytest.mark.parametrize("impl", IMPLS)
def test_another_thread_launches_the_kernel(impl):
    """Autograd's threads do. Triton keeps the allocator of a kernel's workspace for each thread."""
    a, b = operands(256, 256, 256, torch.bfloat16, device="cuda")
    c = product(impl, a, b)
    with ThreadPoolExecutor(1) as thread:
        assert torch.equal(thread.submit(product, impl, a, b).result(), c)


def test_the_battery_finds_no_mistake(klab):
    seen = klab("check", "matmul", "--impl", "torch,triton,cuda", "--quick", "--json")
    failures = [failure for battery in seen.record["batteries"] for failure in battery["failures"]]
    assert not failures, failures[:3]
    assert seen.code == 0, seen.err


def test_the_record_has_what_max_autotune_tried(klab):
    which = ("--impl", "compile", "--shape", "1024", "--dtype", "bfloat16", "--timeout", "300")
    seen = klab("bench", "matmul", *which, "--quick", "--json")
    tuned = seen.result("compile")["built"]["tuned"]
    candidates = next(choice["candidates"] for choice in tuned if choice.get("candidates"))
    assert len(candidates) > 2
    assert any(candidate["name"].startswith("triton") for candidate in candidates)
    times = [candidate["us"] for candidate in candidates if candidate["us"] is not None]
    assert times == sorted(times)
