"""linear_gelu and linear_cross_entropy on a real GPU: sizes, layouts, memory, what serves in models."""

import pytest
import torch

import kernellab as kl
from kernellab.accuracy.errors import measure, passes
from kernellab.machine.memory import peak
from support.serving import OPERATORS, own_table, rule

pytestmark = pytest.mark.gpu
DTYPES = [torch.float32, torch.float16, torch.bfloat16]
# Rows, depth, columns: tiles that are full, tiles that are not, rows that TMA cannot read, and several groups of tiles.
SIZES = [(256, 128, 512), (1000, 520, 776), (333, 517, 1003), (1, 64, 64), (4096, 1024, 4096), (5000, 72, 264)]


def made(*shape, dtype, seed=0):
    return torch.randn(shape, device="cuda", generator=torch.Generator("cuda").manual_seed(seed)).to(dtype)


def value_and_gradients(call, *inputs, **options):
    leaves = [x.detach().requires_grad_() if x.is_floating_point() else x for x in inputs]
    y = call(*leaves, **options)
    upstream = made(*y.shape, dtype=torch.bfloat16, seed=9).to(y.dtype)
    return y.detach(), *torch.autograd.grad(y, [x for x in leaves if x.is_floating_point()], upstream)


def assert_as_exact(op, impl, inputs, **options):
    """Errors like those of PyTorch's own op, as in a check."""
    wide = [x.double() if x.is_floating_point() else x for x in inputs]
    exact = value_and_gradients(op.reference, *wide, **options)
    ours, theirs = (value_and_gradients(op[name], *inputs, **options) for name in (impl, "torch"))
    for our, their, true in zip(ours, theirs, exact, strict=True):
        assert (our.shape, our.dtype) == (their.shape, their.dtype)
        assert passes(*(measure(y, true, rowwise=True) for y in (our, their)))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("approximate", ["tanh", "none"])
def test_linear_gelu_is_as_exact_as_pytorch_at_any_size(size, dtype, approximate):
    rows, depth, cols = size
    x, bias = made(rows, depth, dtype=dtype), made(cols, dtype=dtype, seed=2)
    weight = made(cols, depth, dtype=dtype, seed=1) / depth**0.5
    assert_as_exact(kl.ops.linear_gelu, "triton", (x, weight, bias), approximate=approximate)


@pytest.mark.parametrize("impl", ["triton", "triton-recompute"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("reduction", ["mean", "none"])
@pytest.mark.parametrize("size", [(300, 128, 1000), (2000, 264, 5000), (1537, 517, 40003)], ids=str)
def test_linear_cross_entropy_is_as_exact_as_pytorch_at_any_size(size, dtype, reduction, impl):
    rows, depth, cols = size
    x, weight = made(rows, depth, dtype=dtype), made(cols, depth, dtype=dtype, seed=1) / depth**0.5
    target = torch.randint(0, cols, (rows,), device="cuda")
    target[::7] = -100
    options = {"reduction": reduction, "label_smoothing": 0.1}
    assert_as_exact(kl.ops.linear_cross_entropy, impl, (x, weight, target), **options)


def test_the_epilogue_of_cublaslt_computes_the_tanh_form():
    x, weight, bias = (made(*size, dtype=torch.float32) for size in ((64, 64), (64, 64), (64,)))
    y = kl.ops.linear_gelu["torch-epilogue"](x, weight, bias)
    z = torch.nn.functional.linear(x, weight, bias)
    torch.testing.assert_close(y, torch.nn.functional.gelu(z, approximate="tanh"))


def test_gradients_are_the_same_in_every_call():
    rows, depth, cols = 3000, 512, 2048
    x, bias = made(rows, depth, dtype=torch.bfloat16), made(cols, dtype=torch.bfloat16)
    weight = made(cols, depth, dtype=torch.bfloat16) / depth**0.5
    target = torch.randint(0, cols, (rows,), device="cuda")
    for op, inputs in (("linear_gelu", (x, weight, bias)), ("linear_cross_entropy", (x, weight, target))):
        first, second = (value_and_gradients(getattr(kl.ops, op)["triton"], *inputs) for _ in range(2))
        assert all(map(torch.equal, first, second))


def test_the_head_of_a_large_model_takes_under_a_quarter_of_pytorchs_memory():
    rows, depth, cols = 8192, 4096, 128256
    x, weight = made(rows, depth, dtype=torch.bfloat16), made(cols, depth, dtype=torch.bfloat16) / depth**0.5
    target = torch.randint(0, cols, (rows,), device="cuda")

    def allocated(impl):
        def both():
            leaves = x.detach().requires_grad_(), weight.detach().requires_grad_()
            return torch.autograd.grad(kl.ops.linear_cross_entropy[impl](*leaves, target), leaves)

        both()
        return peak(both, x.device)["allocated_bytes"]

    unfused = allocated("torch")
    assert allocated("triton") < unfused / 4
    assert allocated("triton-recompute") < unfused / 4


def test_by_a_rule_of_the_user_the_kernels_serve_in_models_and_in_cuda_graphs():
    rows, depth, cols = 600, 64, 512
    x, weight = made(rows, depth, dtype=torch.bfloat16), made(cols, depth, dtype=torch.bfloat16) / 8
    target = torch.randint(0, cols, (rows,), device="cuda")
    cases = {"linear_gelu": (x, weight), "linear_cross_entropy": (x, weight, target)}
    assert not any(OPERATORS[name].serves(x) for name in cases)
    expected = {name: value_and_gradients(getattr(kl.functional, name), *inputs) for name, inputs in cases.items()}
    with own_table("".join(rule(name, "triton", "triton") for name in cases), "sm_90"):
        if not all(OPERATORS[name].serves(x) for name in cases):
            pytest.skip("a GPU that is no Hopper has another table")
        for name, inputs in cases.items():
            function = getattr(kl.functional, name)
            ours = value_and_gradients(function, *inputs)
            torch.testing.assert_close(ours, expected[name], rtol=2e-2, atol=2e-2)
            with torch.no_grad():
                eager = function(*inputs)
                graph = torch.cuda.CUDAGraph()
                with torch.cuda.graph(graph):
                    captured = function(*inputs)
                graph.replay()
            torch.testing.assert_close(captured, eager)
