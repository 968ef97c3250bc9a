"""Attention: calls that batteries do not make, packed sequences, what its options mean, and its PyTorch backends."""

import itertools
import os
import subprocess
import sys

import pytest
import torch
import torch.nn.functional as F

import kernellab as kl
from kernellab.declaration.case import Case
from kernellab.ops.attention.flex import flex
from kernellab.ops.attention.settings import Settings
from kernellab.ops.attention.varlen import attention_varlen, by_reference
from support.attention import CAUSAL, Call, assert_right, calls, layouts, value_and_gradients
from support.klab import HERE, SRC

# In the interpreter -------------------------------------------------------------------------------------

INTERPRETED = """
import torch
from kernellab.interpreter.emulation import enable_interpreter
enable_interpreter()
from ops.test_attention import PACKED_OPTIONS, check_packed
from support.attention import DESCRIBED, SMALL, assert_right, calls, layouts
from kernellab.ops.attention.triton_sizes import use_sizes
from kernellab.ops.attention.varlen import by_triton

with use_sizes(**SMALL):
    for number, call in enumerate(calls()):
        assert_right("triton-atomic" if number % 5 == 0 else "triton", call)
    for options in PACKED_OPTIONS:
        check_packed(by_triton, options, "cpu")
with use_sizes(**DESCRIBED):
    for call in layouts():
        for impl in ("triton", "triton-atomic"):
            assert_right(impl, call)
print("all right")
"""


def test_triton_is_right_at_any_length_width_mask_and_layout_and_for_packed_sequences():
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", INTERPRETED],
        env={**os.environ, "PYTHONPATH": f"{SRC}{os.pathsep}{HERE}"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.stdout == "all right\n", done.stderr[-3000:]


PACKED_OPTIONS = (
    Settings(),
    Settings("bottom_right"),
    Settings("top_left", window=7, dropout_p=0.3, seed=5, offset=6),
    Settings("bottom_right", scale=0.4, window=9),
)


def check_packed(compute, settings, device):
    """Each sequence attends to itself alone, one of no rows included."""
    generator = torch.Generator().manual_seed(3)
    lengths = ((5, 0, 40, 33), (9, 7, 0, 50))
    starts = [torch.tensor([0, *itertools.accumulate(each)], dtype=torch.int32, device=device) for each in lengths]
    shapes = [(sum(n), heads, 24) for n, heads in ((lengths[0], 4), (lengths[1], 2), (lengths[1], 2))]
    inputs = [torch.randn(s, generator=generator).to(device).requires_grad_() for s in shapes]
    upstream = torch.randn(shapes[0], generator=generator).to(device)
    longest = tuple(max(n) + 1 for n in lengths)
    results = []
    for fn in (compute, by_reference):
        y = fn(*inputs, starts, longest, settings)
        results.append((y, *torch.autograd.grad(y, inputs, upstream)))
    for got, want in zip(*results, strict=True):
        assert torch.allclose(got, want, rtol=1e-4, atol=1e-5), settings


def test_packed_sequences_are_those_alone():
    """The reference of packed sequences, by the reference of one."""
    q, k, v = (torch.randn(12, heads, 8) for heads in (4, 2, 2))
    places = [0, 5, 5, 12]
    starts = torch.tensor(places, dtype=torch.int32)
    for options in ({}, {"causal": "bottom_right", "window": 2}):
        y = attention_varlen(q, k, v, starts, starts, 7, 7, **options)
        for at, end in itertools.pairwise(places):
            alone = [x[at:end].transpose(0, 1)[None] for x in (q, k, v)]
            assert torch.allclose(y[at:end].transpose(0, 1)[None], kl.ops.attention(*alone, **options), atol=1e-6)


# What the options mean ----------------------------------------------------------------------------------


def seen_by(**options):
    """Which keys each query sees: the weights of equal keys, as rows of 0 and 1."""
    q, k = torch.zeros(1, 1, 3, 8), torch.zeros(1, 1, 5, 8)
    y = kl.ops.attention(q, k, torch.eye(5, 8)[None, None], **options)
    return ["".join("x" if weight > 0 else "." for weight in row[:5]) for row in y[0, 0]]


@pytest.mark.parametrize(
    ("options", "seen"),
    [
        ({}, ["xxxxx", "xxxxx", "xxxxx"]),
        ({"causal": "bottom_right"}, ["xxx..", "xxxx.", "xxxxx"]),
        ({"causal": "top_left"}, ["x....", "xx...", "xxx.."]),
        ({"window": 1}, [".xxx.", "..xxx", "...xx"]),
        ({"window": 0}, ["..x..", "...x.", "....x"]),
        ({"causal": "bottom_right", "window": 1}, [".xx..", "..xx.", "...xx"]),
        ({"causal": "top_left", "window": 1}, ["x....", "xx...", ".xx.."]),
    ],
)
def test_which_keys_a_query_sees(options, seen):
    assert seen_by(**options) == seen


@pytest.mark.parametrize("impl", ["manual", "torch", "torch-math", "tiled"])
def test_queries_that_see_no_key_give_0_and_gradients_of_0(impl):
    call = Call(6, 4, options={"causal": "bottom_right"})
    y, dq, dk, dv = value_and_gradients(impl, call, call.inputs())
    for rows in (y[:, :, :2], dq[:, :, :2]):
        assert not rows.any()
    assert all(x.isfinite().all() and x.any() for x in (y, dq, dk, dv))


def test_a_bias_of_minus_infinity_hides_keys():
    q, k, v = (torch.randn(1, 1, 4, 8) for _ in range(3))
    bias = torch.zeros(1, 1, 4, 4).masked_fill(torch.ones(4, 4).triu(1).bool(), -torch.inf)
    bias[:, :, 2] = -torch.inf
    for impl in ("manual", "tiled"):
        y = kl.ops.attention[impl](q, k, v, bias)
        expected = kl.ops.attention(q, k, v, causal="top_left")
        expected[:, :, 2] = 0
        assert torch.allclose(y, expected, atol=1e-6)


def test_the_log_of_the_sum_is_natural():
    call = Call(5, 7, options={"causal": "bottom_right"})
    q, k, v, _ = call.inputs()
    passes = kl.ops.attention["tiled"].fn.passes(**call.options)
    _, lse = passes.forward(q, k, v, None)
    scores = (q @ k.transpose(-1, -2) / 4).masked_fill(torch.ones(5, 7).triu(3).bool(), -torch.inf)
    assert torch.allclose(lse, scores.logsumexp(-1), atol=1e-5)


def test_what_does_not_belong_together_is_refused():
    x = torch.zeros(1, 2, 4, 8)
    for q, k, v, bias, message in (
        (x, x, x[..., :4], None, "k and v must have one"),
        (x, x[:, :, :, :4], x[..., :4], None, "k and v must have one"),
        (x[:, :1].expand(1, 3, 4, 8), x, x, None, "no multiple of 2 heads"),
        (x, x, x, torch.zeros(4, 4), "expand it to"),
        (x, x.double(), x, None, "one dtype"),
        (x[0], x, x, None, "q has 3 dims"),
    ):
        with pytest.raises(ValueError, match=message):
            kl.ops.attention["tiled"](q, k, v, bias)
    for option in ({"causal": "left"}, {"window": -1}, {"dropout_p": 2.0}):
        with pytest.raises(ValueError, match="attention: "):
            kl.ops.attention["tiled"](x, x, x, **option)


# Others' implementations --------------------------------------------------------------------------------


@pytest.mark.parametrize("causal", CAUSAL)
def test_tiled_is_right_over_several_tiles(causal):
    assert_right("tiled", Call(150, 260, heads=2, kv_heads=1, options={"causal": causal, "window": 70}, bias=True))


def test_pinned_backends_are_those_of_pytorch(monkeypatch):
    enabled = []

    def spy(*args, **options):
        flags = torch.backends.cuda
        enabled.append((flags.math_sdp_enabled(), flags.flash_sdp_enabled()))
        return original(*args, **options)

    original = F.scaled_dot_product_attention
    monkeypatch.setattr(F, "scaled_dot_product_attention", spy)
    x = torch.randn(1, 2, 8, 16)
    for impl in ("torch", "torch-math", "torch-flash"):
        kl.ops.attention[impl](x, x, x)
    assert enabled == [(True, True), (True, False), (False, True)]


def refused(impl, *, device="cuda", dtype="bfloat16", sizes=(2, 4, 64, 64), kv_heads=4, keys=64, **options):
    dims = dict(zip(("B", "H", "Sq", "D"), sizes, strict=True), Hk=kv_heads, Sk=keys)
    defaults = {"causal": None, "scale": None, "window": None, "dropout_p": 0.0, "bias": False}
    return kl.ops.attention[impl].refusal(Case(dims, dtype, {**defaults, **options}, device=device))


def test_each_backend_says_what_it_cannot_do():
    assert all(refused(f"torch-{name}") is None for name in ("math", "flash", "efficient", "cudnn"))
    assert refused("torch-cudnn", device="cpu") == "has no kernel for the CPU"
    assert refused("torch-flash", device="cpu", dtype="float32") is None
    assert "16-bit" in refused("torch-flash", dtype="float32")
    assert "grouped heads" in refused("torch-efficient", kv_heads=2)
    assert "bias" in refused("torch-cudnn", bias=True)
    assert "bottom-right" in refused("torch-cudnn", keys=80, causal="bottom_right")
    assert refused("torch-flash", keys=80, causal="bottom_right") is None
    assert "see no key" in refused("torch-flash", keys=40, causal="bottom_right")
    assert "top-left" in refused("torch-flash", keys=80, causal="top_left")
    assert "window" in refused("torch-flash", window=3, causal="top_left")
    assert refused("torch-cudnn", causal="top_left") is None
    assert "random numbers" in refused("torch", dropout_p=0.1)
    assert "256 columns" in refused("triton", sizes=(2, 4, 64, 264))


@pytest.mark.parametrize("causal", CAUSAL)
def test_what_is_compiled_to_flex_attention_is_the_same_function(causal):
    """FlexAttention has no backward on the CPU, where `compile` compiles the reference. tests/gpu checks gradients."""
    for window, bias in ((None, True), (5, False)):
        call = Call(20, 33, heads=4, kv_heads=2, options={"causal": causal, "window": window}, bias=bias)
        inputs = [None if x is None else x.detach() for x in call.inputs()]
        got = flex(*inputs, Settings(**call.options))
        assert torch.allclose(got, kl.ops.attention(*inputs, **call.options), atol=1e-5)


def test_the_calls_of_these_tests_have_what_they_promise():
    made = [*calls(), *layouts()]
    assert len(made) > 50
    assert {call.columns for call in made} >= {1, 16, 40, 72, 96, 256}
    assert {call.dtype for call in made} == {torch.float32, torch.float16, torch.bfloat16}
