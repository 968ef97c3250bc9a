"""Everything inside a compiled function is marked `torch.compiler.disable`: it runs eagerly, without a warning.

The mark was added to a helper while debugging and stayed. The results are right, the call goes through
torch.compile, and the table compares eager PyTorch with itself.
"""

import torch

import kernellab as kl

CAUGHT_BY = "compiled"
SOURCE = None
NEEDS_GPU = False
CAP = 30.0


@kl.op(cases=kl.cases(shape=[(64, 256)], dtype=["float32"]))
def softcap(x):
    """30·tanh(x / 30)."""
    return CAP * torch.tanh(x / CAP)


def capped(x):
    return torch.tanh(x / CAP) * CAP


@torch.compiler.disable
def capped_while_debugging(x):
    return torch.tanh(x / CAP) * CAP


def right(x):
    return capped(x)


def wrong(x):
    return capped_while_debugging(x)


# The backend that compiles fastest: the bug is that no backend is called.
softcap.impl("compile-right")(torch.compile(right, dynamic=False, fullgraph=True, backend="aot_eager"))
softcap.impl("compile-wrong")(torch.compile(wrong, dynamic=False, backend="aot_eager"))
