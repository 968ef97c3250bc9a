"""Matmul: how matrices are described to kernels, what tf32 promises, and every entry of Triton's tables."""

import os
import subprocess
import sys

import pytest
import torch

import kernellab as kl
from kernellab.accuracy.errors import measure, passes, torch_passes
from kernellab.capture.recorder import record_launches
from kernellab.declaration.case import Case
from kernellab.ops.matmul.matrices import as_matrix
from support.klab import HERE, SRC
from support.ops import DTYPES


def test_matrices_by_rows_and_by_columns_are_taken_as_they_lie():
    x = torch.randn(6, 8)
    for view, by_rows, step in (
        (x, True, 8),
        (x.t(), False, 8),
        (x[::2], True, 16),
        (x[:, 2:6], True, 8),
        (x[:1].expand(5, -1), True, 0),
        (x.t()[:, :1].expand(-1, 5), False, 0),
    ):
        matrix = as_matrix(view)
        assert matrix.tensor.data_ptr() == view.data_ptr()
        assert (matrix.by_rows, matrix.step) == (by_rows, step)


def test_a_matrix_with_other_strides_is_copied_to_aligned_rows():
    for x in (torch.randn(5, 14)[:, ::2], torch.randn(5, 8)[:, :1].expand(-1, 3)):
        matrix = as_matrix(x)
        assert torch.equal(matrix.tensor, x)
        assert matrix.aligned
        assert matrix.tensor.stride() == (matrix.step, 1)


def test_alignment_is_that_of_every_row_but_of_a_single_one_only_where_it_begins():
    x = torch.randn(6, 8)
    assert as_matrix(x).aligned
    assert not as_matrix(x[:, 1:]).aligned
    assert not as_matrix(torch.randn(6, 7)).aligned
    assert as_matrix(torch.randn(1, 7)).aligned
    assert as_matrix(torch.randn(7, 1)).aligned


def test_a_lazily_negated_matrix_is_resolved():
    a, b = torch.randn(3, 4), torch._neg_view(torch.randn(4, 5))
    assert torch.allclose(kl.ops.matmul["cpp"](a, b), a @ b, atol=1e-5)


# What tf32 promises ------------------------------------------------------------------------------------


def rounded(x, bits, how):
    """The mantissa in so many bits, cut or to nearest."""
    dropped = 23 - bits
    word = x.view(torch.int32) + (1 << dropped - 1 if how == "nearest" else 0)
    return (word & -(1 << dropped)).view(torch.float32)


def errors_in_tf32(product, a, b):
    exact = kl.ops.matmul.reference(a.double(), b.double(), fp32_precision="tf32")
    return measure(product, exact, rowwise=True)


@pytest.mark.parametrize("depth", [1, 31, 1024])
@pytest.mark.parametrize("seed", range(3))
def test_tf32_may_round_or_cut_its_operands_and_nothing_more(depth, seed):
    generator = torch.Generator().manual_seed(seed)
    a, b = (torch.randn(shape, generator=generator) for shape in ((64, depth), (depth, 64)))
    own = errors_in_tf32(kl.ops.matmul.reference(a, b, fp32_precision="tf32"), a, b)
    for bits, how in ((10, "nearest"), (10, "cut"), (23, "cut")):
        product = rounded(a, bits, how) @ rounded(b, bits, how)
        assert passes(errors_in_tf32(product, a, b), own), (bits, how)
    for wrong in (rounded(a, 7, "nearest") @ rounded(b, 7, "nearest"), torch.zeros(64, 64)):
        errors = errors_in_tf32(wrong, a, b)
        assert not passes(errors, own)
        assert not torch_passes(errors, own, torch.float32)


def test_the_gradients_of_tf32_are_products_of_cut_operands():
    a, b, upstream = torch.randn(8, 9), torch.randn(9, 7), torch.randn(8, 7)
    leaves = [x.requires_grad_() for x in (a, b)]
    for_a, for_b = torch.autograd.grad(kl.ops.matmul.reference(*leaves, fp32_precision="tf32"), leaves, upstream)
    a, b, upstream = (rounded(x.detach(), 10, "cut") for x in (a, b, upstream))
    assert torch.allclose(for_a, upstream @ b.t(), rtol=1e-5, atol=1e-5)
    assert torch.allclose(for_b, a.t() @ upstream, rtol=1e-5, atol=1e-5)


def test_nan_and_inf_stay_what_they_are_in_tf32():
    a = torch.tensor([[torch.inf, 1.0], [torch.nan, 1.0], [-torch.inf, 1.0]])
    c = kl.ops.matmul.reference(a, torch.eye(2), fp32_precision="tf32")
    assert c[:, 1].isnan().all()  # inf · 0
    assert c[0, 0] == torch.inf
    assert c[1, 0].isnan()
    assert c[2, 0] == -torch.inf


def test_tf32_is_about_float32_on_a_gpu():
    op = kl.ops.matmul
    case = Case(dict(M=8, K=8, N=8), "float32", dict(fp32_precision="tf32"))
    assert op.where(case)
    assert not op.where(case.with_(dtype="bfloat16"))
    assert "CPU" in op["torch"].refusal(case)
    assert op["torch"].refusal(case.with_(device="cuda")) is None
    assert op["cuda"].refusal(case) is None
    for impl in ("compile", "triton", "cpp"):
        assert "as it is" in op[impl].refusal(case)
    with record_launches("sm_90"):
        assert op["cuda-tensor"].refusal(case) is None
        assert "tf32" in op["cuda-tensor"].refusal(case.with_(options=dict(fp32_precision="ieee")))
    with record_launches("sm_75"):
        assert "8.0" in op["cuda-tensor"].refusal(case)


def test_cost_counts_the_flops_of_tf32_apart():
    a, b = torch.empty(4, 5, device="meta"), torch.empty(5, 6, device="meta")
    op = kl.ops.matmul
    assert op.cost(a, b).to_json() == {"bytes_read": 4 * 50, "bytes_written": 4 * 24, "flops": {"matmul": 240}}
    assert op.cost(a, b, fp32_precision="tf32").to_json()["flops"] == {"tf32": 240}
    gradients = op.grad_cost(a, b).to_json()
    assert gradients == {"bytes_read": 4 * 74, "bytes_written": 4 * 50, "flops": {"matmul": 480}}


# Triton ------------------------------------------------------------------------------------------------

INTERPRETED = """
import itertools, torch
from kernellab.interpreter.emulation import enable_interpreter
enable_interpreter()
import importlib
kernels = importlib.import_module("kernellab.ops.matmul.triton")  # its name is also the op's attribute
from kernellab.ops.matmul.matrices import as_matrix, new_product
from support.products import LAYOUTS, assert_is_product, operands

kernels.sm_count = lambda device: 3  # so few that a program takes several tiles
launches = {kernels.launch_described: kernels.DESCRIBED, kernels.launch_pointed: kernels.POINTED}
layouts = itertools.cycle(itertools.product(LAYOUTS, LAYOUTS))
for launch, tables in launches.items():
    for size, tables_of_size in tables.items():
        for tiles in tables_of_size:
            # Two layouts of each, in turn: all for all would take minutes.
            for _ in range(2):
                dtype = torch.float32 if size == 4 else torch.bfloat16
                sizes = 2 * tiles.rows + 8, 2 * tiles.depth + 8, tiles.cols + 8
                aligned = launch is kernels.launch_described
                ways = next(w for w in layouts if not (aligned and any("mis" in way for way in w)))
                a, b = operands(*sizes, dtype, ways)
                c = new_product(a, b)
                launch(as_matrix(a), as_matrix(b), c, tiles)
                assert_is_product(c, a, b)
print("all agree")
"""


def test_triton_computes_the_product_with_every_entry_of_its_tables():
    process = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", INTERPRETED],
        env={**os.environ, "PYTHONPATH": f"{SRC}{os.pathsep}{HERE}"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert process.stdout == "all agree\n", process.stderr[-3000:]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_sizes_of_0_give_zeros_or_nothing(dtype):
    for impl in ("cpp", "cuda", "triton"):
        if impl != "cpp" and dtype == torch.float64:
            continue
        for rows, depth, cols in ((0, 3, 4), (3, 4, 0), (3, 0, 4), (0, 0, 0)):
            c = kl.ops.matmul[impl](torch.randn(rows, depth).to(dtype), torch.randn(depth, cols).to(dtype))
            assert (c.shape, c.dtype) == ((rows, cols), dtype)
            assert not c.any()
