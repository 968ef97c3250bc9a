"""Confirms what `klab check` says against the kernels of the other files, without kernellab: each test calls the
library and compares with plain PyTorch in float64.

    python benchmarks/outsiders/confirm.py > OUT/confirm.txt         # on a GPU; in Triton's interpreter without one
    python benchmarks/outsiders/confirm.py liger_rope attorch_glu    # these only

One line per test: `file kernel: confirmed: …`, or `NOT CONFIRMED`. Each test runs in a process of its own. The exit
code is 1 if one is not confirmed. ATTORCH_PATH, UNSLOTH_PATH and TRITON_TUTORIALS as in the other files.
"""

import contextlib
import os
import subprocess
import sys
from pathlib import Path

FILES = dict(liger="liger", attorch="attorch_ops", fla="linear_attention", unsloth="unsloth", flaggems="flaggems")
HAS_GPU = Path("/proc/driver/nvidia/version").exists()
DEVICE = "cuda" if HAS_GPU else "cpu"
if "compiled" in sys.argv:
    os.environ.pop("TRITON_INTERPRET", None)
elif not HAS_GPU:
    os.environ["TRITON_INTERPRET"] = "1"

import torch
import triton
import triton.language as tl
from torch.nn import functional

sys.path.append(os.environ.get("ATTORCH_PATH", ""))
UNSLOTH = Path(os.environ.get("UNSLOTH_PATH", "")) / "unsloth" / "kernels"
TUTORIALS = Path(os.environ.get("TRITON_TUTORIALS", ""))


def stand_in_for_a_gpu():
    """What wrappers ask for before they launch. An autotuned kernel runs its first configuration."""
    from triton.backends.compiler import GPUTarget
    from triton.runtime.autotuner import Autotuner

    class Driver:
        def get_active_torch_device(self):
            return torch.device("cpu")

        def get_current_target(self):
            return GPUTarget("cuda", 90, 32)

        def get_current_device(self):
            return 0

        def get_current_stream(self, device=None):
            return 0

        def get_benchmarker(self):
            return None

    def run(self, *args, **kwargs):
        self.nargs = dict(zip(self.arg_names, args, strict=False))
        config = self.best_config = self.prune_configs(kwargs)[0]
        if config.pre_hook:
            config.pre_hook({**self.nargs, **kwargs, **config.all_kwargs()})
        return self.fn.run(*args, **kwargs, **config.all_kwargs())

    triton.runtime.driver.set_active(Driver())
    Autotuner.run = run
    torch.cuda.get_device_capability = lambda *args: (9, 0)
    torch.cuda.get_device_name = lambda *args: "NVIDIA H200"
    torch.cuda.device = lambda device: contextlib.nullcontext()
    torch.cuda.current_stream = lambda *args: None


def randn(*shape, dtype=torch.float32, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype).to(DEVICE)


def error(got, exact):
    """The largest distance, relative to the largest exact value."""
    return float((got.double() - exact).abs().max() / exact.abs().max())


def gradients64(fn, upstream, *inputs):
    exact = [t.detach().double().requires_grad_() for t in inputs]
    return torch.autograd.grad(fn(*exact), exact, upstream.double())


def unsloth(file, name):
    from definitions import load_definitions, names_for_unsloth

    given = names_for_unsloth()
    if not HAS_GPU:  # Triton's interpreter does not know its functions by other names
        given["triton_cast"] = lambda x, dtype: x.to(dtype) if hasattr(x, "to") else x
    return getattr(load_definitions(UNSLOTH / file, (name,), **given), name)


def tutorial(file, name):
    from definitions import load_definitions

    return getattr(load_definitions(TUTORIALS / file, (name,), device_blas=None, device_workspace=None), name)


# Liger -------------------------------------------------------------------------------------------------


@triton.jit
def tanh(x):
    """For Triton's interpreter, which has no libdevice."""
    return 2 / (1 + tl.exp(-2 * x)) - 1


@triton.jit
def rsqrt(x):
    return 1 / tl.sqrt(x)


class Number(float):
    """For Triton's interpreter, where a kernel's float arguments are Python's and have no `to`."""

    def to(self, dtype):
        return float(self)


def overwrites_inputs(function, exact):
    a, b, upstream = (randn(4, 64, seed=seed) for seed in range(3))
    ours = [a.clone().requires_grad_(), b.clone().requires_grad_()]
    y = function.apply(*ours)
    torch.autograd.grad(y, ours, upstream, retain_graph=True)
    moved = error(ours[0], a.double())
    second = torch.autograd.grad(y, ours, upstream)
    off = error(second[0], gradients64(exact, upstream, a, b)[0])
    yield (
        moved > 0.01 and not off < 0.01,
        f"backward changes its input a by {moved:.2g}; a second one is off by {off:.2g}",
    )


def liger_geglu():
    from liger_kernel.ops import geglu
    from liger_kernel.ops.geglu import LigerGELUMulFunction

    if not HAS_GPU:
        geglu.tanh = tanh
    yield from overwrites_inputs(LigerGELUMulFunction, lambda a, b: functional.gelu(a, approximate="tanh") * b)


def liger_swiglu():
    from liger_kernel.ops import swiglu
    from liger_kernel.ops.swiglu import LigerSiLUMulFunction

    if not HAS_GPU:
        swiglu.float = Number
    yield from overwrites_inputs(LigerSiLUMulFunction, lambda a, b: functional.silu(a) * b)


def liger_group_norm():
    from liger_kernel.ops import group_norm
    from liger_kernel.ops.group_norm import LigerGroupNormFunction

    if not HAS_GPU:
        group_norm.rsqrt = rsqrt
    x, w, b = 1000 + randn(2, 8, 64), torch.ones(8, device=DEVICE), torch.zeros(8, device=DEVICE)
    got = LigerGroupNormFunction.apply(x, w, b, 8, 4, 1e-6 if HAS_GPU else Number(1e-6))
    exact = functional.group_norm(x.double(), 4, eps=1e-6)
    off, torchs = error(got, exact), error(functional.group_norm(x, 4, eps=1e-6), exact)
    yield off > 100 * torchs, f"around 1000 in float32 its E[x²] − E[x]² is off by {off:.2g}, PyTorch by {torchs:.2g}"


def liger_sparsemax():
    """A result of sparsemax is a row of probabilities: none is above 1."""
    from liger_kernel.ops.sparsemax import LigerSparsemaxFunction

    x = torch.randn(1, 32, generator=torch.Generator().manual_seed(0)).mul(1e38).to(DEVICE)
    got = LigerSparsemaxFunction.apply(x, -1).max().item()
    yield got > 1, f"for finite values around 1e38 its largest probability is {got:.2g}"
    x[0, 5] = float("inf")
    got = LigerSparsemaxFunction.apply(x, -1)[0, 5].item()
    yield got == float("inf"), "for a row with inf, its largest probability is inf: ∞ − ∞ is NaN"


def liger_relu_squared():
    """Triton's interpreter propagates NaN, GPUs do not: without one, the kernel's PTX shows it."""
    from liger_kernel.ops.relu_squared import LigerReLUSquaredFunction, _relu_squared_forward_kernel

    x = torch.tensor([[float("nan"), 2.0]], device=DEVICE)
    if HAS_GPU:
        got = LigerReLUSquaredFunction.apply(x)[0, 0].item()
        yield got == 0, f"the result of NaN is {got:g}, that of torch.relu(x) ** 2 is NaN"
        return
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    names = dict(Y_ptr="*fp32", Y_stride="i32", X_ptr="*fp32", X_stride="i32")
    source = ASTSource(
        _relu_squared_forward_kernel,
        {**names, "n_cols": "constexpr", "BLOCK_SIZE": "constexpr"},
        {"n_cols": 128, "BLOCK_SIZE": 128},
    )
    ptx = triton.compile(source, target=GPUTarget("cuda", 90, 32)).asm["ptx"]
    is_deaf = "max.f32" in ptx and "max.NaN" not in ptx
    yield is_deaf, "its PTX has max.f32, which returns the other operand for NaN: 0, where torch.relu(x) ** 2 is NaN"


def liger_cross_entropy():
    from liger_kernel.ops.cross_entropy import LigerCrossEntropyFunction

    def loss(logits, target):
        return LigerCrossEntropyFunction.apply(logits, target, None, -100, 0.0, 0.0, "mean")[0]

    target = torch.arange(16, device=DEVICE)
    logits = randn(16, 32)
    (exact,) = gradients64(lambda x: functional.cross_entropy(x, target), torch.ones((), device=DEVICE), logits)
    turned = logits.t().contiguous().t().requires_grad_()
    off = error(torch.autograd.grad(loss(turned, target), turned)[0], exact)
    yield off > 0.1, f"the gradient of transposed logits is off by {off:.2g} of its largest value"
    ours = logits.clone().requires_grad_()
    result = loss(ours * 1, target) * 3
    torch.autograd.grad(result, ours, retain_graph=True)
    off = error(torch.autograd.grad(result, ours)[0], 3 * exact)
    yield off > 0.1, f"a second backward is off by {off:.2g}"
    none = loss(logits.clone(), torch.full_like(target, -100)).item()
    yield none == 0, f"the mean over no target is {none:g}, PyTorch's is NaN"


def liger_rope():
    from liger_kernel.ops.rope import LigerRopeFunction

    q, k = (randn(1, 1, 4, 8, seed=seed).requires_grad_() for seed in range(2))  # one head
    angle = randn(1, 4, 4)
    cos, sin = (torch.cat([f(angle), f(angle)], -1) for f in (torch.cos, torch.sin))
    results = LigerRopeFunction.apply(q.clone(), k.clone(), cos, sin)
    upstream = [randn(1, 1, 4, 8, seed=seed) for seed in (2, 3)]
    before = upstream[0].double()
    torch.autograd.grad(results, (q, k), upstream)
    moved = error(upstream[0], before)
    yield moved > 0.01, f"with one head, backward changes the upstream gradient by {moved:.2g}"


# attorch -----------------------------------------------------------------------------------------------


def attorch_activation():
    from attorch.act_layers import ActFuncAutoGrad

    x = randn(32, 32).requires_grad_()
    (exact,) = gradients64(torch.sigmoid, torch.ones(32, 32, device=DEVICE), x)
    (got,) = torch.autograd.grad(ActFuncAutoGrad.apply(x, "sigmoid", 0.0, True).sum(), x)
    off = error(got, exact)
    yield not off < 0.01, f"the gradient of sigmoid(x).sum() is off by {off:.2g} of its largest value"
    x = randn(32, 64)[:, ::2]
    off = error(ActFuncAutoGrad.apply(x, "sigmoid", 0.0, True), torch.sigmoid(x.double()))
    yield not off < 0.01, f"sigmoid of every second column is off by {off:.2g}"


def attorch_glu():
    from attorch.glu_layer import GLUAutoGrad

    x = randn(32, 32).requires_grad_()
    upstream = randn(16, 32).t()
    (exact,) = gradients64(lambda x: functional.glu(x, -1), upstream, x)
    off = error(torch.autograd.grad(GLUAutoGrad.apply(x, -1, "sigmoid"), x, upstream)[0], exact)
    yield not off < 0.01, f"with a transposed upstream gradient, the gradient is off by {off:.2g}"


def attorch_cross_entropy():
    from attorch.cross_entropy_loss_layer import CrossEntropyLossAutoGrad

    x = randn(4097, 7)
    target = torch.arange(4097, device=DEVICE) % 7
    exact = functional.cross_entropy(x.double(), target)
    off = error(CrossEntropyLossAutoGrad.apply(x, target), exact)
    yield not off < 1e-5, f"the loss of 4097 rows, which its blocks do not divide, is off by {off:.2g}"
    target = torch.arange(64, device=DEVICE) % 7
    exact = functional.cross_entropy(x[:32].double(), target[::2])
    off = error(CrossEntropyLossAutoGrad.apply(x[:32].contiguous(), target[::2]), exact)
    yield not off < 1e-3, f"with every second element of a target, the loss is off by {off:.2g}"


def attorch_mse_loss():
    from attorch.p_loss_layers import PLossAutoGrad

    wide, y = randn(32, 64), randn(32, 32, seed=1)
    wide[:, 1::2] = 10.0
    x = wide[:, ::2]
    off = error(PLossAutoGrad.apply(x, y, 2, "mean"), functional.mse_loss(x.double(), y.double()))
    yield not off < 0.01, f"the loss of every second column is off by {off:.2g}"


def attorch_linear():
    from attorch.linear_layer import LinearAutoGrad

    if not HAS_GPU:  # Triton's interpreter multiplies in float32
        return
    x, w = randn(128, 128), randn(128, 128, seed=1)
    exact = x.double() @ w.double()
    ours, theirs = error(LinearAutoGrad.apply(x, w, None, None), exact), error(x @ w, exact)
    yield ours > 100 * theirs, f"float32 is multiplied in TF32: off by {ours:.2g}, PyTorch by {theirs:.2g}"


# flash-linear-attention --------------------------------------------------------------------------------


def fla_logsumexp():
    from fla.ops.utils.logsumexp import logsumexp_fwd

    x = randn(2, 32)
    x[0, 3], x[1] = float("inf"), float("-inf")
    got, exact = logsumexp_fwd(x, dtype=x.dtype).tolist(), torch.logsumexp(x.double(), -1).tolist()
    wrong = [g for g in got if g != g]
    yield len(wrong) == 2, f"of a row with inf and of a row of -inf it is {got}, should be {exact}"


def fla_retention():
    from fla.ops.retention import chunk_retention

    q, k, v = (randn(1, 4, 1, 16, seed=seed) for seed in range(3))
    q[0, 0, 0, 0] = float("inf")
    if HAS_GPU:
        got = chunk_retention(q, k, v)[0][0, 0, 0]
    else:  # Triton's interpreter cannot run it. It adds what the query finds in the state, which is 0 at first: inf × 0
        got = (q[0, 0, 0] @ k[0, 0, 0]) * v[0, 0, 0] / 4 + q[0, 0, 0] @ torch.zeros(16, 16)
    exact = (q[0, 0, 0].double() @ k[0, 0, 0].double()) * v[0, 0, 0].double() / 4  # the first position sees itself only
    nan, infinite = int(got.isnan().sum()), int(exact.isinf().sum())
    yield nan > 0 and infinite == 16, f"a query with inf: {nan} of 16 results are NaN, {infinite} should be ±inf"


def fla_simple_gla():
    from fla.ops.simple_gla import chunk_simple_gla

    if not HAS_GPU:
        return
    q, k, v = (randn(1, 64, 1, 64, seed=seed).requires_grad_() for seed in range(3))
    got = chunk_simple_gla(q, k, v, torch.zeros(1, 64, 1, device=DEVICE))[0]
    scores = lambda q, k: (q[0, :, 0] @ k[0, :, 0].t() / 8).tril()  # noqa: E731  without decay
    exact = scores(q.double(), k.double()) @ v[0, :, 0].double()
    ours, theirs = error(got[0, :, 0], exact), error(scores(q, k) @ v[0, :, 0], exact)
    yield ours > 100 * theirs, f"float32 is multiplied in TF32: off by {ours:.2g}, PyTorch by {theirs:.2g}"
    try:
        got.sum().backward()
        refused = ""
    except RuntimeError as problem:
        refused = str(problem).partition(" (")[0]
    yield bool(refused), f"its backward refuses: {refused}"


# Unsloth -----------------------------------------------------------------------------------------------


def unsloth_norm(call, exact):
    x, w, upstream = randn(16, 16).t(), randn(16, seed=1), randn(16, 16, seed=2)
    off = error(call(x, w), exact(x.double(), w.double()))
    yield not off < 0.01, f"of a transposed input it is off by {off:.2g} of its largest value"
    x, before = randn(16, 16).requires_grad_(), upstream.double()
    torch.autograd.grad(call(x, w), x, upstream)
    moved = error(upstream, before)
    yield moved > 0.01, f"backward changes the upstream gradient by {moved:.2g}"


def unsloth_rms_norm():
    apply = unsloth("rms_layernorm.py", "Fast_RMS_Layernorm").apply
    yield from unsloth_norm(lambda x, w: apply(x, w, 1e-6, False), lambda x, w: functional.rms_norm(x, (16,), w, 1e-6))


def unsloth_layer_norm():
    apply, zeros = unsloth("layernorm.py", "Fast_Layernorm").apply, torch.zeros(16, device=DEVICE)
    yield from unsloth_norm(
        lambda x, w: apply(x, w, zeros, 1e-6), lambda x, w: functional.layer_norm(x, (16,), w, zeros.double(), 1e-6)
    )


def unsloth_cross_entropy():
    apply = unsloth("cross_entropy_loss.py", "Fast_CrossEntropyLoss").apply
    logits = randn(8, 32).requires_grad_()
    before = logits.detach().double()
    torch.autograd.grad(apply(logits, torch.arange(8, device=DEVICE)).sum(), logits)
    moved = error(logits.detach(), before)
    yield moved > 0.01, f"backward changes its input by {moved:.2g} of its largest value"


def unsloth_rope():
    apply = unsloth("rope_embedding.py", "Fast_RoPE_Embedding").apply
    q, angle, upstream = randn(1, 4, 2, 8).requires_grad_(), randn(4, 4, seed=1), randn(1, 4, 2, 8, seed=2)
    before = upstream.double()
    torch.autograd.grad(apply(q.clone(), angle.cos(), angle.sin()), q, upstream)
    moved = error(upstream, before)
    yield moved > 0.01, f"backward changes the upstream gradient by {moved:.2g} of its largest value"


# FlagGems ----------------------------------------------------------------------------------------------


def flaggems_matmul():
    """Without a GPU the library cannot be imported: what its host code and its kernel do is done here."""
    a, b = randn(32, 40, dtype=torch.float16)[:, 1:33], randn(32, 32, dtype=torch.float16, seed=1)
    try:
        if HAS_GPU:
            import flag_gems

            flag_gems.mm(a, b)
        else:
            from triton.tools.tensor_descriptor import TensorDescriptor

            TensorDescriptor(a, a.shape, a.stride(), [16, 16])
        refusal = "nothing"
    except AssertionError as error_:
        refusal = str(error_)
    yield "aligned" in refusal, f"a slice that starts at column 1 is refused: {refusal}; torch.mm computes it"
    a, b = randn(64, 32, dtype=torch.float16), randn(32, 1, dtype=torch.float16, seed=1)
    # Without a GPU: tl.sum of float16 products adds in float16.
    got = flag_gems.mm(a, b) if HAS_GPU else torch.from_numpy((a * b.T).numpy().sum(-1, keepdims=True, dtype="float16"))
    exact = a.double() @ b.double()
    off, torchs = (float(((y.double() - exact) / exact).abs().max() * 2**10) for y in (got, a @ b))
    yield off > 4 * torchs + 4, f"one column: adds in float16, off by {off:.2g} roundings, PyTorch by {torchs:.2g}"


# Triton's tutorials ------------------------------------------------------------------------------------


def tutorials_layer_norm():
    layer_norm = tutorial("05-layer-norm.py", "layer_norm")
    x, w, b = randn(16, 32).requires_grad_(), randn(32, seed=1), randn(32, seed=2)
    upstream = randn(32, 16, seed=3).t()
    (exact,) = gradients64(lambda x: functional.layer_norm(x, (32,), w.double(), b.double()), upstream, x)
    off = error(torch.autograd.grad(layer_norm(x, (32,), w, b, 1e-5), x, upstream)[0], exact)
    yield not off < 0.01, f"with a transposed upstream gradient, the gradient is off by {off:.2g}"


def tutorials_attention():
    attention = tutorial("06-fused-attention.py", "attention")
    q, k, v = (-110 - 400 * randn(1, 1, 128, 128, seed=seed).abs() for seed in range(3))
    q, k, v = (t.half() for t in (q, k, v))
    scores = (q.double() @ k.double().transpose(-1, -2) * 0.5).masked_fill(
        ~torch.ones(128, 128, dtype=torch.bool, device=DEVICE).tril(), -torch.inf
    )
    off = error(attention(q, k, v, True, 0.5, False), scores.softmax(-1) @ v.double())
    yield not off < 0.01, f"with inputs below −110, later keys get through its mask of −1e6: off by {off:.2g}"
    q, k, v = (randn(1, 1, 128, 64, dtype=torch.float16, seed=seed).requires_grad_() for seed in range(3))
    try:
        attention(q, k, v, True, 0.5, False).sum().backward()
        refused = False
    except AssertionError:
        refused = True
    yield refused, "attention(q, k, v).sum().backward() fails with an AssertionError"


TESTS = {name: test for name, test in list(globals().items()) if name.partition("_")[0] in {*FILES, "tutorials"}}
TESTS = {name: test for name, test in TESTS.items() if "_" in name and name != "unsloth_norm"}


def main():
    chosen = [name for name in sys.argv[1:] if name in TESTS]
    if len(chosen) == 1:
        if not HAS_GPU and "compiled" not in sys.argv:
            stand_in_for_a_gpu()
        library, _, kernel = chosen[0].partition("_")
        for confirmed, text in TESTS[chosen[0]]():
            print(f"{FILES.get(library, library)} {kernel}: {'confirmed' if confirmed else 'NOT CONFIRMED'}: {text}")
        return
    failed = 0
    for name in chosen or TESTS:
        mode = ["compiled"] if name == "liger_relu_squared" else []
        done = subprocess.run([sys.executable, __file__, name, *mode], capture_output=True, text=True)
        lines = done.stdout.splitlines()
        if done.returncode:
            last = (done.stderr.strip().splitlines() or ["no output"])[-1]
            library, _, kernel = name.partition("_")
            lines.append(f"{FILES.get(library, library)} {kernel}: NOT CONFIRMED: the test ended with {last}")
        print("\n".join(lines), flush=True)
        failed += any("NOT CONFIRMED" in line for line in lines)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
