"""Cross-entropy: targets and rows that batteries do not try, and what its kernels compile to."""

import itertools
import math
import os
import subprocess
import sys

import pytest
import torch

import kernellab as kl
from kernellab.ops.rows_cuda import same_alignment
from support.klab import HERE, SRC


def value_and_gradient(impl, logits, target, **options):
    x = logits.detach().requires_grad_()
    loss = kl.ops.cross_entropy[impl](x, target, **options)
    (gradient,) = torch.autograd.grad(loss.sum(), x)
    return loss.detach(), gradient


# Targets --------------------------------------------------------------------------------------------------


def check_targets_outside(impl):
    """Rows 1 and 2 have targets outside the row: their loss and gradient are NaN, and no other row is affected."""
    for cols in (5, 3000):
        logits, target = torch.randn(4, cols), torch.tensor([1, cols, -1, -100])
        loss, gradient = value_and_gradient(impl, logits, target, reduction="none")
        assert loss.isnan().tolist() == [False, True, True, False]
        assert gradient.isnan().all(1).tolist() == [False, True, True, False]
        assert gradient.isfinite().all(1).tolist() == [True, False, False, True]
        assert value_and_gradient(impl, logits, target)[0].isnan()


def check_ignored_rows(impl):
    """An ignored row gives 0, whatever its logits are; a mean over none is NaN, with gradients of 0."""
    for cols, smoothing in itertools.product((7, 1500), (0.0, 0.1)):
        logits, target = torch.randn(3, cols), torch.tensor([-100, 2, -100])
        logits[0], logits[2] = math.nan, math.inf
        options = {"label_smoothing": smoothing}
        loss, gradient = value_and_gradient(impl, logits, target, reduction="none", **options)
        assert (loss[0], loss[2]) == (0, 0)
        assert not gradient[::2].any()
        assert value_and_gradient(impl, logits, target, **options)[0] == loss[1]  # the mean of one
        loss, gradient = value_and_gradient(impl, logits, torch.full((3,), -100), **options)
        assert loss.isnan()
        assert not gradient.any()


def check_masked_logits(impl):
    """Logits of −inf have a probability of 0. With label smoothing they make the loss infinite, as in PyTorch."""
    for cols, smoothing in itertools.product((9, 2001), (0.0, 0.1)):
        logits, target = torch.randn(4, cols), torch.tensor([0, 1, 2, 3])
        logits[0, 1:], logits[1, 0], logits[2, 2], logits[3, -1] = -math.inf, -math.inf, -math.inf, -math.inf
        options = {"reduction": "none", "label_smoothing": smoothing}
        loss, gradient = value_and_gradient(impl, logits, target, **options)
        expected, expected_gradient = value_and_gradient("torch", logits, target, **options)
        torch.testing.assert_close(loss, expected)
        torch.testing.assert_close(gradient, expected_gradient)


CHECKS = (check_targets_outside, check_ignored_rows, check_masked_logits)


@pytest.mark.parametrize("check", CHECKS)
def test_cpp(check):
    check("cpp")


INTERPRETED = """
from kernellab.interpreter.emulation import enable_interpreter
enable_interpreter()
from ops.test_cross_entropy import CHECKS
for check in CHECKS:
    check("triton")
print("all agree")
"""


def test_triton_in_its_interpreter():
    process = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", INTERPRETED],
        env={**os.environ, "PYTHONPATH": f"{SRC}{os.pathsep}{HERE}"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert process.stdout == "all agree\n", process.stderr[-3000:]


@pytest.mark.parametrize(
    ("logits", "target", "options", "words"),
    [
        (torch.zeros(2, 3, 4), torch.zeros(2, 4, dtype=torch.int64), {}, r"flatten"),
        (torch.zeros(2, 3), torch.zeros(3, dtype=torch.int64), {}, r"\[2, 3\] and \[3\]"),
        (torch.zeros(2, 0), torch.zeros(2, dtype=torch.int64), {}, r"without columns"),
        (torch.zeros(2, 3), torch.zeros(2, dtype=torch.int32), {}, r"torch\.int32"),
        (torch.zeros(2, 3), torch.zeros(2, dtype=torch.int64), {"reduction": "max"}, r"'max'"),
        (torch.zeros(2, 3), torch.zeros(2, dtype=torch.int64), {"label_smoothing": 1.5}, r"1\.5"),
        (torch.zeros(2, 3, dtype=torch.int32), torch.zeros(2, dtype=torch.int64), {}, r"torch\.int32"),
    ],
)
def test_what_no_kernel_takes_is_refused_with_a_reason(logits, target, options, words):
    with pytest.raises((ValueError, TypeError), match=words):
        kl.ops.cross_entropy["cpp"](logits, target, **options)


def test_cost_leaves_out_rows_that_are_ignored():
    logits, target = torch.zeros(4, 10), torch.tensor([1, -100, 2, -100])
    op = kl.ops.cross_entropy
    assert op.cost(logits, target).bytes_read == 2 * 10 * 4 + 4 * 8
    assert op.cost(logits, target, reduction="none").bytes_written == 4 * 4
    assert op.grad_cost(logits, target).bytes_written == 4 * 10 * 4
    assert op.cost(logits.to("meta"), target.to("meta")).bytes_read == 4 * 10 * 4 + 4 * 8


# Compiled code --------------------------------------------------------------------------------------------


def test_rows_that_start_at_the_same_offset_are_read_and_written_in_wide_accesses():
    odd = torch.empty(4, 50257, dtype=torch.bfloat16)
    assert same_alignment(odd, torch.empty_like(odd))
    assert same_alignment(odd[:, :-8], torch.empty(4, 50249, dtype=torch.bfloat16))
    assert not same_alignment(odd[:, :-1], torch.empty(4, 50256, dtype=torch.bfloat16))
    assert not same_alignment(odd[:, 1:-7], torch.empty(4, 50249, dtype=torch.bfloat16))
