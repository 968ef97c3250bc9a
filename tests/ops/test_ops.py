"""The shipped ops without a GPU: C++ for real, Triton in its interpreter, CUDA as machine code."""

import math
import os
import subprocess
import sys

import pytest
import torch

import kernellab as kl
from kernellab.checking.accuracy import measure, passes, special
from kernellab.ops.layout import elementwise, last_dim
from support.klab import SRC

DTYPES = [torch.float32, torch.float16, torch.bfloat16, torch.float64]
LAYOUTS = {
    "contiguous": lambda x: x,
    "transposed": lambda x: x.t(),
    "sliced rows": lambda x: x[::2],
    "sliced columns": lambda x: x[:, 3:-5],
    "column steps": lambda x: x[:, ::2],
    "misaligned": lambda x: x.flatten()[1:8].view(7, 1),
    "expanded": lambda x: x[:1].expand(5, -1),
    "3-D slice": lambda x: x.reshape(4, 5, -1)[:, 1:4, 1:9],
    "permuted": lambda x: x.reshape(4, 5, -1).permute(2, 0, 1),
    "one column": lambda x: x[:, :1],
    "no rows": lambda x: x[:0],
    "no columns": lambda x: x[:, :0],
    "scalar": lambda x: x[0, 0],
}
SPECIALS = [0.0, -0.0, 1e-30, 10.06, -10.06, 60.0, -60.0, 3e4, -3e4, math.inf, -math.inf, math.nan]


def agree(op, got, x, **options):
    own, oracle = op["torch"](x, **options), op.reference(x.double(), **options)
    assert (got.shape, got.dtype) == (own.shape, own.dtype)
    if not x.numel():
        return
    wide = [d for d in range(got.dim()) if got.size(d) > 1]
    assert [got.stride(d) for d in wide] == [own.stride(d) for d in wide]
    assert special(got, oracle, own) is None
    rowwise = bool(op.reduces)
    assert passes(*(measure(y, oracle, rowwise=rowwise) for y in (got, own)))


def options_of(op):
    return [{"approximate": "tanh"}, {"approximate": "none"}] if op == "gelu" else [{}]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", ["gelu", "softmax", "square"])
def test_cpp_takes_any_layout(name, layout, dtype):
    op = getattr(kl.ops, name)
    x = LAYOUTS[layout](torch.randn(20, 60, generator=torch.Generator().manual_seed(1)).to(dtype))
    if name == "softmax" and x.dim() == 0:
        return
    for options in options_of(name):
        agree(op, op["cpp"](x, **options), x, **options)


@pytest.mark.parametrize("dtype", DTYPES[:3], ids=str)
@pytest.mark.parametrize("name", ["gelu", "square"])
def test_cpp_gives_special_values_as_the_reference_does(name, dtype):
    op, x = getattr(kl.ops, name), torch.tensor(SPECIALS).to(dtype).repeat(50)
    for options in options_of(name):
        agree(op, op["cpp"](x, **options), x, **options)


def test_cpp_softmax_of_special_rows():
    x = torch.randn(6, 70)
    x[0, :-1], x[1], x[2, 3], x[3, 4], x[4] = -math.inf, -math.inf, math.nan, math.inf, torch.finfo(torch.float32).min
    agree(kl.ops.softmax, kl.ops.softmax["cpp"](x), x)


def test_cpp_threads_give_the_same_result_as_one():
    x = torch.randn(700, 900)
    before = torch.get_num_threads()
    try:
        results = []
        for threads in (1, 2, 5):
            torch.set_num_threads(threads)
            results.append([getattr(kl.ops, n)["cpp"](x) for n in ("gelu", "softmax")])
    finally:
        torch.set_num_threads(before)
    for other in results[1:]:
        assert all(torch.equal(a, b) for a, b in zip(results[0], other, strict=True))


def test_unknown_dtypes_are_refused_by_name():
    for op in (kl.ops.gelu, kl.ops.softmax, kl.ops.square):
        with pytest.raises(TypeError, match=r"torch\.int32"):
            op["cpp"](torch.zeros(4, dtype=torch.int32))


def test_layouts_are_merged_as_far_as_they_go():
    x = torch.randn(4, 6, 8)
    assert elementwise(x)[2] == (1, 192, 0, 1, 0, 1)
    assert elementwise(x.permute(2, 0, 1))[2].flat  # dense in another order is still one run
    assert elementwise(x[:, :, :5])[2] == (24, 5, 8, 1, 5, 1)
    source, _, size = elementwise(x[:, 1:4, :5])
    assert size.flat
    assert source.data_ptr() != x.data_ptr()  # three dims: copied first
    assert last_dim(x[:, :, ::2])[2] == (24, 4, 8, 2, 4, 1)


INTERPRETED = """
import math, sys, torch
from kernellab.interpreter.emulation import prepare
prepare()
sys.path.insert(0, sys.argv[1])
import kernellab as kl
import test_ops as t

for dtype in t.DTYPES[:3]:
    base = torch.randn(20, 60, generator=torch.Generator().manual_seed(1)).to(dtype)
    for layout, view in t.LAYOUTS.items():
        for name in ("gelu", "softmax", "square"):
            x = view(base)
            if name == "softmax" and x.dim() == 0:
                continue
            op = getattr(kl.ops, name)
            for options in t.options_of(name):
                t.agree(op, op["triton"](x, **options), x, **options)
    for name in ("gelu", "square"):
        x = torch.tensor(t.SPECIALS).to(dtype).repeat(50)
        for options in t.options_of(name):
            t.agree(getattr(kl.ops, name), getattr(kl.ops, name)["triton"](x, **options), x, **options)
    for cols in (1, 1025, 40000, 70003):
        x = torch.randn(2, cols).to(dtype)
        x[0, : cols - 1] = -math.inf
        t.agree(kl.ops.softmax, kl.ops.softmax["triton"](x), x)
print("all agree")
"""


def test_triton_in_its_interpreter_takes_any_layout_width_and_value():
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", INTERPRETED, os.path.dirname(__file__)],  # noqa: PTH120
        env={**os.environ, "PYTHONPATH": str(SRC)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.stdout == "all agree\n", done.stderr[-3000:]


CUDA_KERNELS = {
    "gelu": ["map_flat<GeluTanh, float, 4>", "map_flat<GeluErf, __nv_bfloat16, 8>", "map_rows<GeluTanh, __half, 1>"],
    "square": ["map_flat<Square, __half, 8>", "map_rows<Square, float, 4>"],
    "softmax": ["softmax_warp<float, 4, 8, 32>", "softmax_loop<__nv_bfloat16, 8, false>"],
}


@pytest.mark.bare
@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_90", "sm_100"])
@pytest.mark.parametrize("name", CUDA_KERNELS)
def test_cuda_kernels_build_without_a_toolkit_for_every_architecture(name, arch):
    folder = getattr(kl.ops, name).file.parent
    for instance in CUDA_KERNELS[name]:
        built = kl.cuda.kernel(folder / "cuda.cu", instance).compile(arch)
        assert built.code[:4] == b"\x7fELF"
        assert built.symbol.encode() in built.code
