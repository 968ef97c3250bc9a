"""Liger-Kernel 0.8.5: Triton kernels for training.

Where Liger offers a choice, these functions take the one that computes what PyTorch does. By default its RMS norms
round the normalized row before they apply the weight, and overwrite the upstream gradient, which autograd may pass to
other operations as well.
"""

from liger_kernel.ops import (
    LigerCrossEntropyFunction,
    LigerFusedAddRMSNormFunction,
    LigerGELUMulFunction,
    LigerLayerNormFunction,
    LigerRMSNormFunction,
    LigerRopeFunction,
    LigerSiLUMulFunction,
    LigerSoftmaxFunction,
)

from kernellab.peers import PeerLibrary

_WIDEST_ROW = 65536  # liger_kernel.ops.utils.calculate_settings
_OFFSET = 0.0  # added to the weight of a norm; Gemma's is 1
_CASTING = "gemma"  # all of the norm in float32, rounded once: PyTorch's way
_IN_PLACE = False  # the gradient of a norm in the memory of the upstream gradient

liger = PeerLibrary(
    module="liger_kernel",
    package="liger-kernel",
    install="pip install liger-kernel",
    kind="triton",
    supports=lambda case: case.dtype != "float64" or "takes float32, float16 and bfloat16",
)


def fits_a_block(case):
    return case.N <= _WIDEST_ROW or f"takes rows of at most {_WIDEST_ROW} columns"


def has_weight(case):
    return fits_a_block(case) if case.weight else "needs a weight"


def has_weight_and_bias(case):
    return fits_a_block(case) if case.weight and case.bias else "needs a weight and a bias"


@liger.impl("softmax", supports=fits_a_block)
def _(x):
    return LigerSoftmaxFunction.apply(x)


# Backward writes the gradients into the memory of gate and up.
@liger.impl("swiglu", supports=fits_a_block, mutates=["gate", "up"])
def _(gate, up):
    return LigerSiLUMulFunction.apply(gate, up)


@liger.impl(
    "geglu",
    supports=lambda case: fits_a_block(case) if case.approximate == "tanh" else "has the tanh form only",
    mutates=["gate", "up"],
)
def _(gate, up, *, approximate="tanh"):
    return LigerGELUMulFunction.apply(gate, up)


@liger.impl("layer_norm", supports=has_weight_and_bias)
def _(x, weight=None, bias=None, *, eps=1e-5):
    return LigerLayerNormFunction.apply(x, weight, bias, eps)


@liger.impl("rms_norm", supports=fits_a_block)
def _(x, weight=None, *, eps=1e-6):
    return LigerRMSNormFunction.apply(x, weight, eps, _OFFSET, _CASTING, _IN_PLACE)


@liger.impl("add_rms_norm", supports=has_weight)
def _(x, residual, weight=None, *, eps=1e-6):
    return LigerFusedAddRMSNormFunction.apply(x, residual, weight, eps, _OFFSET, _CASTING, _IN_PLACE)


# It turns q and k in place where they lie in memory as [batch, position, head, column]. Elsewhere, as in the op's own
# cases, it copies them to that order first.
@liger.impl(
    "rope",
    supports=lambda case: not case.interleaved or "pairs the two halves of a head only",
    mutates=["q", "k"],
)
def _(q, k, cos, sin, *, interleaved=False):
    positions, axis = None, 1  # of the tables' rows; of the heads, where tables have four dims
    return LigerRopeFunction.apply(q, k, cos, sin, positions, axis, q.shape[-1])


# Forward computes the gradient and writes it over the logits.
@liger.impl("cross_entropy", mutates=["logits"], grad_in_forward=True)
def _(logits, target, *, reduction="mean", label_smoothing=0.0, ignore_index=-100):
    class_weights, squared_lse_scale = None, 0.0
    return LigerCrossEntropyFunction.apply(
        logits, target, class_weights, ignore_index, squared_lse_scale, label_smoothing, reduction
    )[0]
