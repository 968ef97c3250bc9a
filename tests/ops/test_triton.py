"""The implementations in Triton, run in its interpreter."""

import os
import subprocess
import sys

from support.klab import HERE, SRC

INTERPRETED = """
import math, torch
from kernellab.interpreter.emulation import enable_interpreter
enable_interpreter()
import kernellab as kl
from support.ops import DTYPES, LAYOUTS, SPECIALS, assert_agrees, ops_with, options_of, takes

def check(op, x):
    for options in options_of(op):
        assert_agrees(op, op["triton"](x, **options), x, **options)

assert ops_with("triton")
for dtype in DTYPES[:3]:
    base = torch.randn(20, 60, generator=torch.Generator().manual_seed(1)).to(dtype)
    for name in ops_with("triton"):
        op = getattr(kl.ops, name)
        for view in LAYOUTS.values():
            if takes(op, view(base)):
                check(op, view(base))
        if not op.reduces:
            check(op, torch.tensor(SPECIALS).to(dtype).repeat(50))
            continue
        for cols in (1, 1025, 40000, 70003):
            x = torch.randn(2, cols).to(dtype)
            x[0, : cols - 1] = -math.inf
            check(op, x)
huge = 1e30 * (1 + torch.randn(1, 140000))  # squares overflow: the results are 0, in wide rows as in narrow ones
assert not kl.ops.layer_norm["triton"](huge).any(), "a wide row"
assert not kl.ops.layer_norm["triton"](huge[:, :1000].contiguous()).any(), "a narrow row"
print("all agree")
"""


def test_triton_in_its_interpreter_takes_any_layout_width_and_value():
    process = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", INTERPRETED],
        env={**os.environ, "PYTHONPATH": f"{SRC}{os.pathsep}{HERE}"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert process.stdout == "all agree\n", process.stderr[-3000:]
