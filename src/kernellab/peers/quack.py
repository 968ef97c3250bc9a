"""QuACK 0.6.5: kernels in CUTLASS's Python DSL, for Hopper and Blackwell.

They are compiled for tensors whose last dim has unit stride. Where QuACK does not make them so, `contiguous=` says it.
"""

import quack
from quack.rmsnorm import layernorm_bwd, layernorm_fwd
from quack.rotary import apply_rotary_emb

from kernellab.peers import PeerLibrary
from kernellab.peers._passes import join_passes

_WIDEST_HEAD = 512

quack_kernels = PeerLibrary(
    module="quack",
    package="quack-kernels",
    install="pip install quack-kernels",
    kind="cuda",
    supports=lambda case: case.dtype != "float64" or "takes float32, float16 and bfloat16",
)


def rows_of(x):
    """Rows and columns, which its functions take as two dims."""
    return x.shape[:-1].numel(), x.shape[-1]


def takes_params(case):
    """Its layer norm takes float32 parameters, and the op's have the dtype of x."""
    if not case.weight:
        return "needs a weight"
    return case.dtype == "float32" or "takes a weight and a bias in float32 only"


def takes_heads(case):
    return (case.D % 8 == 0 and case.D <= _WIDEST_HEAD) or f"takes heads of 8, 16, … {_WIDEST_HEAD} columns"


@quack_kernels.impl("softmax", contiguous=["x"])
def _(x):
    return quack.softmax(x.reshape(rows_of(x))).reshape(x.shape)


@quack_kernels.impl("layer_norm", supports=takes_params, contiguous=["x", "weight", "bias"])
def _(x, weight=None, bias=None, *, eps=1e-5):
    rows = rows_of(x)

    def forward(x, weight, bias):
        y, rstd, mean = layernorm_fwd(x.reshape(rows), weight, bias, eps, return_rstd=True, return_mean=True)
        return y.reshape(x.shape), [x, weight, rstd, mean]

    def backward(upstream, x, weight, rstd, mean):
        upstream = upstream.contiguous().reshape(rows)
        dx, dweight, dbias = layernorm_bwd(x.reshape(rows), weight, upstream, rstd, mean, has_bias=bias is not None)
        return dx.reshape(x.shape), dweight, dbias

    return join_passes(forward, backward, x, weight, bias)


@quack_kernels.impl("rms_norm", contiguous=["weight"])
def _(x, weight=None, *, eps=1e-6):
    return quack.rmsnorm(x, weight, eps=eps)


@quack_kernels.impl("add_rms_norm", contiguous=["weight"])
def _(x, residual, weight=None, *, eps=1e-6):
    return quack.rmsnorm(x, weight, residual=residual, eps=eps, prenorm=True)


# Its heads lie as [batch, position, head, column]; any strides will do. q and k are two launches.
@quack_kernels.impl("rope", supports=takes_heads)
def _(q, k, cos, sin, *, interleaved=False):
    def turn(x):
        return apply_rotary_emb(x.transpose(1, 2), cos, sin, interleaved).transpose(1, 2)

    return turn(q), turn(k)


# Its loss is float32, the op's has the dtype of the logits: one more launch, on one number.
@quack_kernels.impl(
    "cross_entropy",
    supports=lambda case: case.label_smoothing == 0 or "has no label smoothing",
    contiguous=["logits", "target"],
)
def _(logits, target, *, reduction="mean", label_smoothing=0.0, ignore_index=-100):
    return quack.cross_entropy(logits, target, ignore_index=ignore_index, reduction=reduction).to(logits.dtype)
