"""The shipped GPU kernels on a real GPU: shapes, strides, dtypes, values, sizes, streams."""

import math

import pytest
import torch

import kernellab as kl
from kernellab.accuracy.errors import measure, nonfinite_mismatch, passes

pytestmark = pytest.mark.gpu

DTYPES = [torch.float32, torch.float16, torch.bfloat16]
WAYS = [
    (op, way)
    for op, ways in {
        "gelu": ["triton", "cuda"],
        "square": ["triton", "cuda", "cuda-inline"],
        "softmax": ["triton", "cuda"],
    }.items()
    for way in ways
]
LAYOUTS = {
    "contiguous": lambda x: x,
    "transposed": lambda x: x.t(),
    "sliced rows": lambda x: x[::2],
    "sliced columns": lambda x: x[:, 3:-5],
    "column steps": lambda x: x[:, ::2],
    "misaligned": lambda x: x.flatten()[1:].view(-1)[: (x.numel() - 1) // 7 * 7].view(7, -1),
    "expanded": lambda x: x[:1].expand(5, -1),
    "3-D slice": lambda x: x[:60, :510].reshape(6, 10, 510)[:, 2:9, 1:500],
    "permuted": lambda x: x[:60, :510].reshape(6, 10, 510).permute(2, 0, 1),
    "one column": lambda x: x[:, :1],
    "no rows": lambda x: x[:0],
    "no columns": lambda x: x[:, :0],
    "scalar": lambda x: x[0, 0],
}


def agree(op, way, x, **options):
    if way == "cuda-inline" and kl.cuda.nvcc_missing():
        pytest.skip("no nvcc")
    op = getattr(kl.ops, op)
    got, own = op[way](x, **options), op["torch"](x, **options)
    torch.cuda.synchronize()
    oracle = op.reference(x.double(), **options)
    assert got.shape == own.shape
    assert got.dtype == own.dtype
    if x.numel():
        assert [s for s, n in zip(got.stride(), got.shape, strict=True) if n > 1] == [
            s for s, n in zip(own.stride(), own.shape, strict=True) if n > 1
        ]
        assert nonfinite_mismatch(got, oracle, own) is None
        rowwise = bool(op.reduces)
        mine, theirs = (measure(y, oracle, rowwise=rowwise) for y in (got, own))
        assert passes(mine, theirs), (mine, theirs)


def options_of(op):
    return [{"approximate": "tanh"}, {"approximate": "none"}] if op == "gelu" else [{}]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("op", "way"), WAYS)
def test_any_layout(op, way, layout, dtype):
    x = LAYOUTS[layout](torch.randn(66, 520, device="cuda", dtype=dtype))
    if op == "softmax" and x.dim() == 0:
        return
    for options in options_of(op):
        agree(op, way, x, **options)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("cols", [1, 2, 7, 31, 64, 1000, 1024, 1025, 4096, 5000, 12288, 32768, 32769, 50257])
@pytest.mark.parametrize("way", ["triton", "cuda"])
def test_softmax_of_any_width(way, cols, dtype):
    agree("softmax", way, torch.randn(37, cols, device="cuda", dtype=dtype))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("cols", [65536, 65537, 100003, 131072, 131076, 262144, 300000, 524288])
@pytest.mark.parametrize("way", ["triton", "cuda"])
def test_softmax_of_wide_rows(way, cols, dtype):
    agree("softmax", way, torch.randn(150, cols, device="cuda", dtype=dtype))


@pytest.mark.parametrize("cols", [5, 300, 1024, 9000, 40000, 70000, 140000, 600000])
@pytest.mark.parametrize("way", ["triton", "cuda"])
def test_softmax_of_special_rows(way, cols):
    x = torch.randn(9, cols, device="cuda")
    x[0, : cols - 1] = -math.inf
    x[1] = -math.inf
    x[2, cols // 2] = math.nan
    x[3, cols // 3] = math.inf
    x[4] = torch.finfo(torch.float32).min
    x[5] += 1000
    x[6, ::2] = -math.inf
    x[7] = 3.0
    agree("softmax", way, x)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(("op", "way"), [w for w in WAYS if w[0] != "softmax"])
def test_elementwise_special_values(op, way, dtype):
    values = [0.0, -0.0, 1e-30, -1e-30, 10.06, -10.06, 60.0, -60.0, 3e4, -3e4, math.inf, -math.inf, math.nan]
    x = torch.tensor(values, device="cuda").to(dtype).repeat(1001)
    for options in options_of(op):
        agree(op, way, x, **options)


@pytest.mark.parametrize(("op", "way"), WAYS)
def test_more_than_two_to_the_31_elements(op, way):
    if torch.cuda.mem_get_info()[0] < 40 << 30:
        pytest.skip("needs 40 GiB of free GPU memory")
    if way == "cuda-inline" and kl.cuda.nvcc_missing():
        pytest.skip("no nvcc")
    rows, cols = 70_000, 32_768  # 2.3e9 elements
    x = torch.empty(rows, cols, device="cuda", dtype=torch.bfloat16)
    for start in range(0, rows, 10_000):
        x[start : start + 10_000].normal_()
    y = getattr(kl.ops, op)[way](x)
    for start in (0, rows // 2, rows - 100):  # below, across and beyond the 32-bit limit
        part = x[start : start + 100]
        oracle = getattr(kl.ops, op).reference(part.double())
        own = getattr(kl.ops, op)["torch"](part)
        rowwise = op == "softmax"
        mine, theirs = (measure(t, oracle, rowwise=rowwise) for t in (y[start : start + 100], own))
        assert passes(mine, theirs)


@pytest.mark.parametrize(("op", "way"), WAYS)
def test_a_small_tensor_with_huge_strides(op, way):
    if torch.cuda.mem_get_info()[0] < 20 << 30:
        pytest.skip("needs 20 GiB of free GPU memory")
    base = torch.empty(5 << 30, device="cuda", dtype=torch.bfloat16)
    x = base.as_strided((5, 300), ((1 << 30) + 64, 1))
    x.copy_(torch.randn(5, 300, device="cuda"))
    agree(op, way, x)


@pytest.mark.parametrize(("op", "way"), WAYS)
def test_the_current_stream_is_used(op, way):
    if way == "cuda-inline" and kl.cuda.nvcc_missing():
        pytest.skip("no nvcc")
    fn = getattr(kl.ops, op)[way]
    x = torch.randn(2048, 2048, device="cuda")
    fn(x)  # built before the race
    stream = torch.cuda.Stream()
    torch.cuda.synchronize()
    late = torch.full_like(x, 7.0)
    with torch.cuda.stream(stream):
        torch.cuda._sleep(50_000_000)
        late.copy_(x)
        y = fn(late)  # reads `late` too early on any other stream
    stream.synchronize()
    assert torch.equal(y, fn(x))
