"""linear_gelu: what is saved for backward, how results are divided into tiles, and what batteries do not try."""

import importlib
import os
import subprocess
import sys

import pytest
import torch

import kernellab as kl
from kernellab.checking.reference_memory import LiveTensors
from kernellab.declaration.case import Case
from kernellab.ops.linear_gelu.triton import CANDIDATES, TILES
from kernellab.ops.linear_triton import OTHER_TILES
from support.klab import HERE, SRC
from support.shipped_code import compiled

OP = kl.ops.linear_gelu
HOPPER_SHARED_BYTES = 227 << 10


def inputs(rows, depth, cols, dtype=torch.float32):
    generator = torch.Generator().manual_seed(0)
    sizes = ((rows, depth), (cols, depth), (cols,))
    x, weight, bias = (torch.randn(size, generator=generator, dtype=dtype) for size in sizes)
    return x, weight / depth**0.5, bias


# What is saved ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("names", [(), ("x",), ("weight",), ("bias",)], ids=str)
def test_the_values_before_gelu_are_written_only_if_a_gradient_is_wanted(names):
    x, weight, bias = inputs(64, 16, 256)
    for name, t in {"x": x, "weight": weight, "bias": bias}.items():
        t.requires_grad_(name in names)
    result_bytes = 64 * 256 * 4
    with LiveTensors([x, weight, bias]) as tensors:
        y = OP["cpp"](x, weight, bias)
    made = tensors.timeline[-1] - tensors.timeline[0]
    assert made // result_bytes == (2 if names else 1)
    assert y.requires_grad == bool(names)


def test_gradients_that_are_not_wanted_are_not_computed():
    x, weight, bias = inputs(8, 256, 64)
    y = OP["cpp"](x.requires_grad_(), weight, bias)
    with LiveTensors([y]) as tensors:
        y.sum().backward()
    assert max(tensors.timeline) - tensors.timeline[0] < weight.numel()  # a quarter of its bytes


def test_a_backward_without_what_forward_leaves_out_says_why():
    importlib.import_module("kernellab.functional")  # registers the operator
    call = torch.ops.kernellab.linear_gelu
    x, weight, _ = inputs(4, 8, 8)
    y, _ = call(x.requires_grad_(), weight, None, "tanh", [False, False, False])
    with pytest.raises(RuntimeError, match="was called as if no gradient were wanted"):
        y.sum().backward()


@pytest.mark.parametrize(
    ("args", "error", "words"),
    [
        ((torch.zeros(2, 3), torch.zeros(4, 2)), ValueError, r"\[2, 3\] and \[4, 2\]"),
        ((torch.zeros(()), torch.zeros(4, 2)), ValueError, r"\[\] and \[4, 2\]"),
        ((torch.zeros(2, 3), torch.zeros(4, 3), torch.zeros(3)), ValueError, r"a bias of 4 elements"),
        ((torch.zeros(2, 3), torch.zeros(4, 3).double()), TypeError, r"torch\.float64"),
        ((torch.zeros(2, 3).int(), torch.zeros(4, 3).int()), TypeError, r"torch\.int32"),
    ],
)
def test_what_no_kernel_takes_is_refused_with_a_reason(args, error, words):
    with pytest.raises(error, match=words):
        OP["cpp"](*args)


def test_the_epilogue_of_cublaslt_is_declared_for_what_it_computes():
    def refusal(**changes):
        options = {"approximate": "tanh", "bias": True, "device": "cuda"} | changes
        device = options.pop("device")
        return OP["torch-epilogue"].refusal(Case({"...": (4,), "K": 8, "N": 8}, "bfloat16", options, device=device))

    assert refusal() is None
    assert "tanh form alone" in refusal(approximate="none")
    assert "needs a bias" in refusal(bias=False)
    assert "on a CPU" in refusal(device="cpu")


# Sums ------------------------------------------------------------------------------------------------------


def test_the_gradient_of_the_bias_is_added_up_without_losing_small_terms():
    """In bfloat16 sums, 256 + 1 is 256."""
    rows = 4096
    x, weight = torch.zeros(rows, 1, dtype=torch.bfloat16), torch.zeros(1, 1, dtype=torch.bfloat16)
    bias = torch.full((1,), 20.0, dtype=torch.bfloat16, requires_grad=True)  # where the slope of GeLU is 1
    OP["cpp"](x, weight, bias).backward(torch.ones(rows, 1, dtype=torch.bfloat16))
    assert bias.grad.item() == rows


# Triton ----------------------------------------------------------------------------------------------------

INTERPRETED = """
from kernellab.interpreter.emulation import enable_interpreter
enable_interpreter()
from ops.test_linear_gelu import check_tiles
check_tiles()
print("all agree")
"""


def check_tiles():
    """Results do not depend on how they are divided, nor on how they are read."""
    from kernellab.interpreter.pretended_gpu import pretended_gpu

    launcher = importlib.import_module("kernellab.ops.linear_gelu.triton")
    for depth in (72, 75):  # through descriptors, and through pointers
        x, weight, bias = inputs(300, depth, 272, torch.bfloat16)
        z = torch.nn.functional.linear(x.double(), weight.double(), bias.double())
        y = torch.nn.functional.gelu(z, approximate="tanh")
        for tiles in (*CANDIDATES, OTHER_TILES["16-bit"]):
            with pretended_gpu():
                result, before = launcher.forward_in(tiles, x, weight, bias, "tanh", keep=True)
            torch.testing.assert_close(result.double(), y, rtol=1e-2, atol=1e-2)
            torch.testing.assert_close(before.double(), z, rtol=1e-2, atol=1e-2)
    for launcher.SLOPES_PER_SM in (0, 1):  # one program that takes many tiles of rows; many programs
        with pretended_gpu():
            made = launcher.slope(y.float(), z.float(), "tanh", with_bias=True)
        z.requires_grad_()
        (exact,) = torch.autograd.grad(torch.nn.functional.gelu(z, approximate="tanh"), z, y.float().double())
        torch.testing.assert_close(made.dz.double(), exact, rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(made.dbias.double(), exact.sum(0), rtol=1e-5, atol=1e-4)
        z = z.detach()


def test_triton_in_its_interpreter_gives_one_result_for_all_tiles():
    process = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", INTERPRETED],
        env={**os.environ, "PYTHONPATH": f"{SRC}{os.pathsep}{HERE}"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert process.stdout == "all agree\n", process.stderr[-3000:]


def test_tiles_are_powers_of_two_and_fit_into_the_shared_memory_of_an_sm():
    listed = [*CANDIDATES, *(tiles for rows in TILES.values() for _, tiles in rows), *OTHER_TILES.values()]
    for tiles in listed:
        assert all(n & (n - 1) == 0 for n in tiles[:4])
    for tiles in CANDIDATES:
        assert tiles.shared_bytes(2, stores=True) * max(1, tiles.per_sm) <= HOPPER_SHARED_BYTES
    assert TILES["16-bit"][-1][1] in CANDIDATES


def test_on_hopper_the_products_are_those_of_tensor_cores_read_by_tma():
    forward, *_ = compiled("linear_gelu", "triton", dtype="bfloat16", cols=128, rows=256)
    assert forward.kernel == "linear_gelu_forward"
    assert "wgmma.mma_async" in forward.ptx
    assert "cp.async.bulk.tensor" in forward.ptx
