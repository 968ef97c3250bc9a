"""Dropout of a tensor, added to a residual, as after every block of a transformer."""

import functools

import torch

import kernellab as kl
from kernellab.ops.floats import has_gpu_kernel
from kernellab.ops.gradients import Contract, Passes, differentiable
from kernellab.ops.layout import empty_elementwise, reorder
from kernellab.ops.philox import Stream, keep_rule


@kl.op(
    args=dict(x=kl.tensor("... N"), residual=kl.tensor("... N")),
    options=dict(p=[0.1, 0.0, 1.0], seed=[(1 << 32) + 1], offset=[(1 << 32) + 7]),
    seed="seed",
    cost=lambda x, residual, **_: kl.Cost(read=[x, residual], write=[x]),
    # The gradient of the residual is the upstream gradient itself: it is not computed.
    grad_cost=lambda x, residual, **_: kl.Cost(read=[x], write=[x]),
    dtypes=["float32", "bfloat16", "float16", "float64"],
    cases=kl.cases(
        shape=[(16384, 16384)],
        dtype=["float32", "bfloat16"],
        cpu=dict(shape=[(4096, 4096)], dtype=["float32"]),
    ),
)
def dropout_add(x, residual, *, p=0.1, seed=0, offset=0):
    """x·mask/(1 − p) + residual, where the mask is 0 with probability p, otherwise 1.

    The mask follows from seed, offset and the element's index alone (`philox.py`), bit for bit in every
    implementation, and is drawn again in the backward pass. Calls with other offsets have masks of their own. The
    probability is p, rounded to a multiple of 2⁻³². p = 0 is x + residual exactly, and p = 1 is x·0 + residual: NaN or
    infinity that is dropped is NaN, as in PyTorch.
    """
    last_kept, scale = keep_rule("dropout_add", p)
    kept = Stream(seed, offset).words(x.shape, x.device) <= last_kept
    return x * kept * scale + residual


def passes(map_, value, gradient, p, seed, offset):
    """Dropout and addition by one of the movers of elementwise ops. Nothing is saved for the backward pass."""
    rule = keep_rule("dropout_add", p)
    random_map = functools.partial(map_, "dropout_add", stream=Stream(seed, offset), parameters=rule)

    def forward(x, residual):
        if (x.shape, x.dtype) != (residual.shape, residual.dtype):
            tensors = " and ".join(f"{t.dtype} of shape {tuple(t.shape)}" for t in (x, residual))
            raise ValueError(f"dropout_add: x and the residual must have one shape and dtype, and are {tensors}")
        return [reorder(random_map(value, x, residual)[0], x, residual)]

    def backward(upstream, *, wanted):
        return [random_map(gradient, upstream)[0]]

    return Passes(forward, backward)


CONTRACT = Contract(
    inputs=("x", "residual"),
    outputs=("y",),
    saved=(),
    differentiated=(("x",),),
    new_outputs=lambda *inputs, **_: [empty_elementwise(*inputs)],
    new_gradients=lambda *upstream, **_: [empty_elementwise(*upstream)],
    sizing_place=0,
    added=("residual",),
)


@dropout_add.impl("torch", random=True)
def _(x, residual, *, p=0.1, seed=0, offset=0):
    return torch.nn.functional.dropout(x, p) + residual


@dropout_add.impl("triton", supports=has_gpu_kernel)
@differentiable(CONTRACT)
def _(*, p=0.1, seed=0, offset=0):
    from kernellab.ops.dropout_add.triton import dropout_add_value, dropout_gradient
    from kernellab.ops.elementwise_triton import map_triton

    return passes(map_triton, dropout_add_value, dropout_gradient, p, seed, offset)


@dropout_add.impl("cuda", supports=has_gpu_kernel)
@differentiable(CONTRACT)
def _(*, p=0.1, seed=0, offset=0):
    from kernellab.ops.elementwise_cuda import map_cuda

    return passes(map_cuda, "DropoutAdd", "DropoutGradient", p, seed, offset)


@dropout_add.impl("cpp")
@differentiable(CONTRACT)
def _(*, p=0.1, seed=0, offset=0):
    from kernellab.ops.maps_cpp import map_cpp

    return passes(map_cpp, "dropout_add", "dropout_gradient", p, seed, offset)
