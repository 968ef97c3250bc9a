"""The op's shape changed and its fake did not: torch.compile plans with sizes that the kernel does not return.

Called directly the op is right. Compiled code asks the fake for the result's shape, allocates and indexes by it,
and is wrong or fails far from here.
"""

import torch

import kernellab as kl

CAUGHT_BY = "registered"
SOURCE = "https://github.com/pytorch/pytorch/issues/182328"
NEEDS_GPU = False


@kl.op(
    args=dict(x=kl.tensor("... N")),
    where=lambda case: case.N % 2 == 0,
    cases=kl.cases(shape=[(64, 256)], dtype=["float32"]),
)
def gated(x):
    """The first half of the last dim times the second."""
    a, b = x.tensor_split(2, dim=-1)
    return a * b


@torch.library.custom_op("kernellab_museum::gated_right", mutates_args=())
def gated_right(x: torch.Tensor) -> torch.Tensor:
    a, b = x.tensor_split(2, dim=-1)
    return (a * b).contiguous()


@torch.library.custom_op("kernellab_museum::gated_wrong", mutates_args=())
def gated_wrong(x: torch.Tensor) -> torch.Tensor:
    a, b = x.tensor_split(2, dim=-1)
    return (a * b).contiguous()


@gated_right.register_fake
def _(x):
    return x.new_empty((*x.shape[:-1], x.shape[-1] // 2))


@gated_wrong.register_fake
def _(x):
    return x.new_empty(x.shape)


def backward(ctx, dy):
    a, b = ctx.saved_tensors[0].tensor_split(2, dim=-1)
    return torch.cat([dy * b, dy * a], dim=-1)


def keep(ctx, inputs, output):
    ctx.save_for_backward(inputs[0])


gated_right.register_autograd(backward, setup_context=keep)
gated_wrong.register_autograd(backward, setup_context=keep)

gated.impl("python-right")(gated_right)
gated.impl("python-wrong")(gated_wrong)
