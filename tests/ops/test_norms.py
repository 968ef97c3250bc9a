"""Layer norm and RMS norm: what the tests of all ops do not cover."""

import pytest
import torch
import torch.nn.functional as F

import kernellab as kl
from support.ops import DTYPES

NORMS = ("layer_norm", "rms_norm", "add_rms_norm")
ARCHS = ("sm_80", "sm_90", "sm_100")
# Kernels that do not carry the tensor: they add up a few partial sums.
SMALL = ("norm_add_up", "add_partial_sums")


def tensors(name, rows, cols, dtype, device="cpu"):
    """Inputs of a norm, with its parameters."""
    shapes = {"layer_norm": [(rows, cols), (cols,), (cols,)], "rms_norm": [(rows, cols), (cols,)]}
    shapes["add_rms_norm"] = [(rows, cols), (rows, cols), (cols,)]
    generator = None if device == "meta" else torch.Generator().manual_seed(1)
    return [torch.randn(shape, generator=generator, device=device).to(dtype).requires_grad_() for shape in shapes[name]]


def passes(op, impl, inputs):
    """The results of a norm, and the gradients of its inputs."""
    results = op[impl](*inputs)
    results = results if isinstance(results, tuple) else (results,)
    upstream = [torch.ones_like(y) for y in results]
    return [*results, *torch.autograd.grad(results, inputs, upstream)]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", NORMS)
def test_a_sum_over_no_rows_is_zero(name, dtype):
    inputs = tensors(name, 0, 8, dtype)
    for gradient in passes(getattr(kl.ops, name), "cpp", inputs)[-(len(inputs) - 1) :]:
        assert gradient.numel() == 0 or not gradient.any()


@pytest.mark.parametrize("name", NORMS)
def test_cpp_gives_the_same_gradients_with_any_number_of_threads(name):
    before = torch.get_num_threads()
    inputs = tensors(name, 700, 300, torch.float32)
    try:
        runs = []
        for threads in (1, 2, 5):
            torch.set_num_threads(threads)
            runs.append(passes(getattr(kl.ops, name), "cpp", inputs))
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(a, b) for other in runs[1:] for a, b in zip(runs[0], other, strict=True))


@pytest.mark.parametrize("name", NORMS)
def test_rows_of_a_million_columns_are_taken(name):
    inputs = tensors(name, 2, (1 << 20) + 3, torch.float32)
    op = getattr(kl.ops, name)
    for ours, own in zip(passes(op, "cpp", inputs), passes(op, "torch", inputs), strict=True):
        assert torch.allclose(ours, own, rtol=1e-4, atol=1e-4)


def test_the_variance_of_numbers_far_from_zero_keeps_its_digits():
    """E[x²] − E[x]² would leave nothing of it in fp32."""
    x = 30_000 + torch.randn(4, 1000, generator=torch.Generator().manual_seed(1)).double()
    ours = kl.ops.layer_norm["cpp"](x.float())
    assert torch.allclose(ours.double(), F.layer_norm(x.float().double(), (1000,)), atol=0.02)


def test_squares_that_overflow_float_do_not_overflow_the_norm_in_cpp():
    x = torch.tensor([[1e30, -2e30, 3e30]])
    expected = F.rms_norm(x.double(), (3,), eps=1e-6).float()
    assert torch.allclose(kl.ops.rms_norm["cpp"](x), expected)


@pytest.mark.parametrize("name", NORMS)
def test_a_norm_refuses_parameters_that_do_not_fit(name):
    *inputs, last = tensors(name, 4, 8, torch.float32)
    with pytest.raises(ValueError, match="takes no parameter of shape"):
        getattr(kl.ops, name)["cpp"](*inputs, last[:5])
    with pytest.raises(TypeError, match=r"takes no torch\.float64 beside it"):
        getattr(kl.ops, name)["cpp"](*inputs, last.double())


def test_rms_norm_keeps_the_order_of_channels_last():
    x = torch.randn(2, 3, 4, 8).to(memory_format=torch.channels_last)
    assert kl.ops.rms_norm["cpp"](x).stride() == kl.ops.rms_norm["torch"](x).stride() == x.stride()
