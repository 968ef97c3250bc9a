"""Attention of a few queries in Triton: keys that are split over programs, in Triton's interpreter."""

import itertools
import math
import os
import subprocess
import sys

import torch

import kernellab as kl
from support.functional_calls import assert_as_exact, values
from support.klab import HERE, SRC

# batch, heads, groups, queries, keys, columns
SIZES = ((1, 4, 2, 1, 300, 16), (2, 2, 2, 3, 200, 24), (1, 10, 1, 16, 130, 40), (1, 2, 2, 5, 3, 7), (1, 2, 1, 2, 0, 8))
OPTIONS = (
    {},
    {"causal": "top_left", "scale": -0.2},
    {"causal": "bottom_right"},
    {"causal": "bottom_right", "window": 7},
)


def check_results():
    """y and lse are those of the reference, with the keys in one part and in several."""
    from kernellab.ops.attention import decode
    from kernellab.ops.attention.settings import Settings

    splits = set()
    split = decode._split
    decode._split = lambda *args: (splits.add(split(*args)[0]), split(*args))[1]
    for fewest, size, dtype in itertools.product((256, 32), SIZES, (torch.float32, torch.bfloat16)):
        decode.FEWEST_SPLIT_KEYS = fewest
        for number, options in enumerate(OPTIONS):
            q, k, v, bias = inputs(size, dtype, biased=number % 2 == 1)
            settings = Settings(**options)
            y, lse = decode.forward(q, k, v, bias, settings)
            pytorchs = kl.ops.attention["torch"](q, k, v, bias, **options)  # it multiplies in the same dtype
            exact = [None if x is None else x.double() for x in (q, k, v, bias)]
            expected = kl.ops.attention.reference(*exact, **options)
            assert_as_exact(((y,), ()), ((pytorchs,), ()), ((expected,), ()))
            torch.testing.assert_close(lse.double(), lse_of(*exact, settings), rtol=1e-5, atol=1e-5)
    assert len(splits) > 2, splits


def check_the_gradient_of_the_other_kernels_takes_what_it_saves():
    q, k, v, _ = (x if x is None else x.requires_grad_() for x in inputs((1, 4, 2, 2, 40, 16), torch.float32))
    results = []
    for impl in ("triton-decode", "manual"):
        y = kl.ops.attention[impl](q, k, v, causal="bottom_right")
        results.append((y, *torch.autograd.grad(y, (q, k, v), values(*y.shape, seed=4))))
    torch.testing.assert_close(*results, rtol=1e-4, atol=1e-5)


def inputs(size, dtype, *, biased=False):
    batch, heads, groups, queries, keys, columns = size
    q = values(batch, queries, heads, columns, seed=0).to(dtype).transpose(1, 2)
    k, v = (values(batch, groups, keys, columns, seed=seed).to(dtype) for seed in (1, 2))
    return q, k, v, values(batch, heads, queries, keys, seed=3).to(dtype) if biased else None


def lse_of(q, k, v, bias, settings):
    k = k.repeat_interleave(q.shape[1] // k.shape[1], dim=1)
    scores = q @ k.transpose(-1, -2) * settings.scale_for(q.shape[-1])
    scores = scores if bias is None else scores + bias
    seen = settings.band(q.shape[2], k.shape[2]).seen(torch.arange(q.shape[2]), torch.arange(k.shape[2]))
    return scores.masked_fill(~seen, -math.inf).logsumexp(-1)


INTERPRETED = """
from kernellab.interpreter.emulation import enable_interpreter
enable_interpreter()
from ops import test_attention_decode as tests
tests.check_results()
tests.check_the_gradient_of_the_other_kernels_takes_what_it_saves()
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


def test_what_it_is_not_for_is_refused_with_a_reason():
    from kernellab.declaration.case import Case

    op = kl.ops.attention
    size = {"B": 1, "H": 4, "Sq": 16, "D": 64, "Hk": 4, "Sk": 512}
    options = {name: choices[0] for name, choices in op.options.items()} | {"bias": False}

    def answer(options=options, **other):
        return op["triton-decode"].supports(Case({**size, **other}, "bfloat16", options))

    assert answer() is True
    assert "at most 16 queries" in answer(Sq=17)
    assert "dropout" in answer({**options, "dropout_p": 0.1})
    assert "256 columns" in answer(D=264)
