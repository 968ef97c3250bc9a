"""linear_cross_entropy: memory, gradients ahead of their upstream gradient, chunks, and what batteries do not try."""

import importlib
import itertools
import os
import subprocess
import sys

import pytest
import torch

import kernellab as kl
from kernellab.checking.reference_memory import LiveTensors
from kernellab.library import operators
from kernellab.ops.cross_entropy.loss import Settings
from kernellab.ops.gradients import Implementation
from kernellab.ops.linear_cross_entropy.passes import CONTRACT, MOST_CHUNKS, linear_loss_passes, rows_of_a_chunk
from kernellab.ops.linear_cross_entropy.triton import CANDIDATES, TILES
from support.klab import HERE, SRC

OP = kl.ops.linear_cross_entropy


def call_operator(x, weight, target, *, reduction="mean"):
    wanted = [torch.is_grad_enabled() and t.requires_grad for t in (x, weight)]
    return operators.LINEAR_CROSS_ENTROPY.call(x, weight, target, reduction, 0.0, -100, wanted)[0]


WAYS = {"op": OP["cpp"], "operator": call_operator}


def inputs(rows, depth, cols, dtype=torch.float32, *, device="cpu"):
    if device == "meta":
        x, weight = (torch.empty(n, depth, dtype=dtype, device=device) for n in (rows, cols))
        return x.requires_grad_(), weight.requires_grad_(), torch.empty(rows, dtype=torch.int64, device=device)
    generator = torch.Generator().manual_seed(rows)
    x, weight = (torch.randn(n, depth, generator=generator).to(dtype) for n in (rows, cols))
    target = torch.randint(0, cols, (rows,), generator=generator)
    target[::5] = -100
    return x.requires_grad_(), (weight.detach() / depth**0.5).requires_grad_(), target


def value_and_gradients(call, x, weight, target, upstream=None, **options):
    loss = call(x, weight, target, **options)
    if upstream is None:
        upstream = torch.linspace(0.5, 2, loss.numel()).reshape(loss.shape).to(loss)
    return loss.detach(), *torch.autograd.grad(loss, (x, weight), upstream)


# Memory ----------------------------------------------------------------------------------------------------


class NoKernels:
    """Allocates what kernels allocate, and computes nothing."""

    def losses(self, x, weight, target, settings):
        return x.new_empty(len(target), dtype=torch.float32)

    def convert(self, logits, target, scales, losses, settings):
        pass

    def multiply(self, gradient, factor):
        pass


def peaks(call, x, weight, target, **options):
    """Bytes beyond the inputs: at the peak of forward, after it, and at the peak of both passes."""
    with LiveTensors([x, weight, target]) as tensors:
        before = tensors.timeline[0]
        loss = call(x, weight, target, **options)
        forward, kept = max(tensors.timeline), tensors.timeline[-1]
        gradients = torch.autograd.grad(loss, (x, weight), torch.empty_like(loss))
    assert len(gradients) == 2
    return forward - before, kept - before, max(tensors.timeline) - before


def without_kernels(*, ahead):
    def passes(**options):
        return linear_loss_passes(NoKernels(), Settings(**options), ahead=ahead)

    return lambda *tensors, reduction="mean": Implementation(CONTRACT, passes)(
        *tensors, reduction=reduction, label_smoothing=0.0, ignore_index=-100
    )


def test_the_head_of_a_large_model_takes_under_a_quarter_of_the_memory_of_logits_and_cross_entropy():
    tensors = inputs(8192, 4096, 128256, torch.bfloat16, device="meta")
    unfused = peaks(OP["torch"], *tensors)[2]
    for ahead, reduction in ((True, "mean"), (False, "mean"), (True, "none")):
        assert peaks(without_kernels(ahead=ahead), *tensors, reduction=reduction)[2] < unfused / 4
    logits = 8192 * 128256 * 2
    ahead_forward, ahead_kept, _ = peaks(without_kernels(ahead=True), *tensors)
    assert ahead_forward - ahead_kept < logits / 5  # of which a chunk is the most
    assert peaks(without_kernels(ahead=False), *tensors)[:2] < (1 << 20, 1 << 20)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("reduction", ["mean", "none"])
def test_no_tensor_is_as_large_as_the_logits(way, reduction):
    x, weight, target = inputs(2048, 16, 2048)
    logits = 2048 * 2048 * 4
    with torch.no_grad(), LiveTensors([x, weight, target]) as tensors:
        WAYS[way](x, weight, target, reduction=reduction)
    assert max(tensors.timeline) - tensors.timeline[0] < logits / 4
    assert peaks(WAYS[way], x, weight, target, reduction=reduction)[2] < logits / 3


def test_a_frozen_weight_gets_no_gradient_and_takes_no_memory_for_one():
    x, weight, target = inputs(300, 64, 4096)
    weight = weight.detach()
    with LiveTensors([x, weight, target]) as tensors:
        OP["cpp"](x, weight, target).backward()
        peak = max(tensors.timeline) - tensors.timeline[0]
    chunk = rows_of_a_chunk(300) * 4096 * 4
    assert peak < chunk + weight.numel() * 4
    expected = torch.autograd.grad(OP["torch"](x, weight, target), x)[0]
    torch.testing.assert_close(x.grad, expected)


# Gradients ahead of their upstream gradient ------------------------------------------------------------------


@pytest.mark.parametrize("way", WAYS)
def test_the_first_backward_overwrites_what_forward_computed_and_a_second_one_computes_it_again(way):
    x, weight, target = inputs(300, 64, 512)
    with LiveTensors([x, weight, target]) as tensors:
        loss = WAYS[way](x, weight, target)
        forward = len(tensors.timeline)
        first = torch.autograd.grad(loss, (x, weight), torch.tensor(3.0), retain_graph=True)
    assert max(tensors.timeline[forward:]) - tensors.timeline[forward - 1] < 100  # bytes
    kept = [t.clone() for t in first]
    second = torch.autograd.grad(loss, (x, weight), torch.tensor(-2.0))
    expected = torch.autograd.grad(OP["torch"](x, weight, target), (x, weight))
    for gradient, copy, again, one in zip(first, kept, second, expected, strict=True):
        assert torch.equal(gradient, copy), "the second changed what the first returned"
        torch.testing.assert_close(gradient, 3 * one)
        torch.testing.assert_close(again, -2 * one)


@pytest.mark.parametrize("way", WAYS)
def test_gradients_stay_in_the_leaves_without_a_copy(way):
    x, weight, target = inputs(300, 64, 512)
    with LiveTensors([x, weight, target]) as tensors:
        loss = WAYS[way](x, weight, target)
        forward = len(tensors.timeline)
        loss.backward()
    assert max(tensors.timeline[forward:]) - tensors.timeline[forward - 1] < 100
    assert weight.grad.shape == weight.shape


def test_losses_in_float16_are_scaled_before_their_gradients_are_rounded():
    """Training with float16 multiplies its loss by a large number, because otherwise small gradients are 0."""
    x, weight, target = inputs(2000, 16, 4096, torch.float16)
    exact = [t.detach().double().requires_grad_() for t in (x, weight)]
    _, *ours = value_and_gradients(OP["cpp"], x, weight, target, torch.tensor(2.0**15, dtype=torch.float16))
    _, *expected = value_and_gradients(OP["torch"], *exact, target, torch.tensor(2.0**15, dtype=torch.float64))
    for gradient, true in zip(ours, expected, strict=True):
        assert (gradient.double() - true).norm() < 2e-3 * true.norm()


# Chunks and targets -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("rows", [1, 255, 256, 257, 512, 513, 1537, 3000])
def test_chunks_of_tokens_cover_all_and_are_few(rows):
    step = rows_of_a_chunk(rows)
    assert -(-rows // step) <= MOST_CHUNKS
    assert step <= max(256, rows / MOST_CHUNKS + 128)


@pytest.mark.parametrize("rows", [0, 1, 256, 257, 700])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_results_are_those_of_pytorch_whatever_the_number_of_chunks(rows, reduction):
    tensors = inputs(rows, 12, 50)
    options = {"reduction": reduction, "label_smoothing": 0.1}
    ours, theirs = (value_and_gradients(OP[impl], *tensors, **options) for impl in ("cpp", "torch"))
    torch.testing.assert_close(ours, theirs, equal_nan=True)


def check_targets(impl):
    """A target outside the vocabulary gives NaN, and affects no other token; the mean of no losses is NaN."""
    for cols, smoothing in itertools.product((5, 3000), (0.0, 0.1)):
        x, weight, _ = inputs(4, 8, cols)
        options = {"label_smoothing": smoothing}
        target = torch.tensor([1, cols, -1, -100])
        loss, dx, _ = value_and_gradients(OP[impl], x, weight, target, reduction="none", **options)
        assert loss.isnan().tolist() == [False, True, True, False]
        assert dx.isnan().all(1).tolist() == [False, True, True, False]
        assert not dx[3].any()
        target = torch.tensor([-100, 2, -100, 0])
        ours, theirs = (
            value_and_gradients(OP[name], x, weight, target, reduction="sum", **options) for name in (impl, "torch")
        )
        torch.testing.assert_close(ours, theirs)
        loss, *gradients = value_and_gradients(OP[impl], x, weight, torch.full((4,), -100), **options)
        assert loss.isnan()
        assert not any(gradient.any() for gradient in gradients)


def test_targets_in_cpp():
    check_targets("cpp")


@pytest.mark.parametrize(
    ("args", "options", "error", "words"),
    [
        (((2, 3), (4, 2), (2,)), {}, ValueError, r"\[2, 3\], \[4, 2\], \[2\]"),
        (((2, 3, 4), (4, 4), (2, 3)), {}, ValueError, r"flatten"),
        (((2, 3), (0, 3), (2,)), {}, ValueError, r"without rows"),
        (((2, 3), (4, 3), (2,)), {"reduction": "max"}, ValueError, r"'max'"),
        (((2, 3), (4, 3), (2,)), {"label_smoothing": 1.5}, ValueError, r"1\.5"),
    ],
)
def test_what_no_kernel_takes_is_refused_with_a_reason(args, options, error, words):
    x, weight, target = (torch.zeros(size) for size in args)
    with pytest.raises(error, match=words):
        OP["cpp"](x, weight, target.long(), **options)


def test_what_no_kernel_takes_of_dtypes_is_refused_with_a_reason():
    x, weight, target = torch.zeros(2, 3), torch.zeros(4, 3), torch.zeros(2, dtype=torch.int64)
    for args, words in (((x, weight.double(), target), "float64"), ((x, weight, target.int()), r"torch\.int32")):
        with pytest.raises(TypeError, match=words):
            OP["cpp"](*args)


# Triton ----------------------------------------------------------------------------------------------------

INTERPRETED = """
from kernellab.interpreter.emulation import enable_interpreter
enable_interpreter()
from ops.test_linear_cross_entropy import check_targets, check_tiles, check_wide_rows
check_targets("triton")
check_targets("triton-recompute")
check_wide_rows("triton")
check_tiles()
print("all agree")
"""


def check_tiles():
    """The losses do not depend on how the vocabulary is divided, nor on how it is read."""
    from kernellab.interpreter.pretended_gpu import pretended_gpu

    launcher = importlib.import_module("kernellab.ops.linear_cross_entropy.triton")
    for depth, smoothing in ((72, 0.0), (75, 0.1)):  # through descriptors, and through pointers
        x, weight, target = inputs(140, depth, 600, torch.bfloat16)
        settings = Settings("none", smoothing, -100)
        expected = OP["torch"](x.double(), weight.double(), target, **settings._asdict())
        for tiles, rounds in itertools.product(CANDIDATES, (0, 4)):  # the vocabulary in one part, and in many
            launcher.ROUNDS = rounds
            with pretended_gpu(), torch.no_grad():
                losses = launcher.losses_in(tiles, x, weight, target, settings)
            torch.testing.assert_close(losses.double(), expected, rtol=1e-5, atol=1e-5)


def check_wide_rows(impl):
    """A vocabulary that does not fit into the registers of a program."""
    x, weight, target = inputs(3, 2, 33000)
    target[-1] = 32999
    for smoothing in (0.0, 0.1):
        ours, theirs = (
            value_and_gradients(OP[name], x, weight, target, label_smoothing=smoothing) for name in (impl, "torch")
        )
        torch.testing.assert_close(ours, theirs)


def test_triton_in_its_interpreter():
    process = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", INTERPRETED],
        env={**os.environ, "PYTHONPATH": f"{SRC}{os.pathsep}{HERE}"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert process.stdout == "all agree\n", process.stderr[-3000:]


def test_tiles_are_powers_of_two_and_fit_into_the_shared_memory_of_an_sm():
    for tiles in (*CANDIDATES, *(tiles for rows in TILES.values() for _, tiles in rows)):
        assert all(n & (n - 1) == 0 for n in tiles[:4])
    assert all(tiles.shared_bytes(2, stores=False) <= 227 << 10 for tiles in CANDIDATES)
    assert TILES["16-bit"][-1][1] in CANDIDATES
