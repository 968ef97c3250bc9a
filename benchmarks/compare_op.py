"""Five ops with two implementations each, so that a record has ten results, and the same GeLU with 3 % more work.

The implementations are kernellab's in Triton, `shipped`, and PyTorch's. The inputs of `gelu` have 5 % more rows than
the op needs. `slowed` is `shipped` on 3 % more rows, of which it returns those that are needed: a slowdown of a real
kernel. A copy of this file in which EXTRA_PERCENT is another number stands for the version after a change.
"""

from __future__ import annotations

import torch

import kernellab as kl

SLOWED_PERCENT, MARGIN_PERCENT = 3, 5
EXTRA_PERCENT = 0  # of `shipped`
# On an H200 about 130 µs each, where a time varies least from run to run.
CASES = kl.cases(shape=[(16800, 4096)], dtype=["float32"], cpu=dict(shape=[(840, 4096)]))


def needed_rows(x):
    return x.shape[0] * 100 // (100 + MARGIN_PERCENT)


def call(op, impl, x):
    """A shipped implementation; without a GPU, where Triton has none, PyTorch's."""
    return getattr(kl.ops, op)[impl if x.is_cuda else "torch"](x)


def cost(x):
    moved = needed_rows(x) * x.shape[1] * x.element_size()
    return kl.Cost(read=[moved], write=[moved])


@kl.op(args=dict(x=kl.tensor("R N")), cost=cost, cases=CASES, manual=False)
def gelu(x):
    """GeLU of the first 100/105 of the rows."""
    return torch.nn.functional.gelu(x[: needed_rows(x)], approximate="tanh")


def gelu_with(impl, percent):
    def with_more_rows(x):
        rows = needed_rows(x)
        return call("gelu", impl, x[: rows * (100 + percent) // 100])[:rows]

    return with_more_rows


gelu.impl("shipped")(gelu_with("triton", EXTRA_PERCENT))
gelu.impl("pytorch")(gelu_with("torch", 0))
gelu.impl("slowed")(gelu_with("triton", SLOWED_PERCENT))


@kl.op(args=dict(x=kl.tensor("R N")), cases=CASES, manual=False)
def silu(x):
    """SiLU."""
    return torch.nn.functional.silu(x)


@kl.op(args=dict(x=kl.tensor("R N")), cases=CASES, manual=False)
def square(x):
    """Squares."""
    return x * x


@kl.op(args=dict(x=kl.tensor("R N")), cases=CASES, manual=False)
def softmax(x):
    """Softmax of each row."""
    return torch.softmax(x, -1)


@kl.op(args=dict(x=kl.tensor("R N")), cases=CASES, manual=False)
def log_softmax(x):
    """Log-softmax of each row."""
    return torch.log_softmax(x, -1)


def caller(op, impl):
    return lambda x: call(op, impl, x)


for _op in (silu, square, softmax, log_softmax):
    _op.impl("shipped")(caller(_op.name, "triton"))
    _op.impl("pytorch")(caller(_op.name, "torch"))
