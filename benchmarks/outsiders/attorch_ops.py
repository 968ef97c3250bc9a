"""Kernels of attorch at commit 67c2772 (git clone https://github.com/BobMcDear/attorch).

ATTORCH_PATH names the checkout. klab check benchmarks/outsiders/attorch_ops.py:softmax
"""

import os
import sys

import torch
from torch.nn import functional

sys.path.append(os.environ.get("ATTORCH_PATH", ""))

from attorch.act_layers import ActFuncAutoGrad
from attorch.cross_entropy_loss_layer import CrossEntropyLossAutoGrad
from attorch.glu_layer import GLUAutoGrad
from attorch.layer_norm_layer import LayerNormAutoGrad
from attorch.linear_layer import LinearAutoGrad
from attorch.p_loss_layers import PLossAutoGrad
from attorch.rms_norm_layer import RMSNormAutoGrad
from attorch.softmax_layers import SoftmaxAutoGrad

import kernellab as kl

ROWS = dict(M=[2048], N=[1024], dtype=["float32"])
EPS = 1e-5


def is_filled(case):
    return case.M > 0 and case.N > 0


@kl.op(
    args=dict(x=kl.tensor("M N")),
    options=dict(act=["sigmoid", "tanh", "gelu", "silu", "mish", "relu6", "selu", "softplus", "leaky_relu"]),
    where=is_filled,
    cases=kl.cases(**ROWS),
)
def activation(x, *, act="sigmoid"):
    functions = dict(sigmoid=torch.sigmoid, tanh=torch.tanh)
    return functions[act](x) if act in functions else getattr(functional, act)(x)


@activation.impl("triton")
def _(x, *, act="sigmoid"):
    return ActFuncAutoGrad.apply(x, "leaky_relu_0.01" if act == "leaky_relu" else act, 0.0, True)


@kl.op(args=dict(x=kl.tensor("M N")), reduces="N", where=is_filled, cases=kl.cases(**ROWS))
def softmax(x):
    return torch.softmax(x, -1)


@softmax.impl("triton")
def _(x):
    return SoftmaxAutoGrad.apply(x, False, False)


@kl.op(args=dict(x=kl.tensor("M N")), reduces="N", where=is_filled, cases=kl.cases(**ROWS))
def log_softmax(x):
    return torch.log_softmax(x, -1)


@log_softmax.impl("triton")
def _(x):
    return SoftmaxAutoGrad.apply(x, False, True)


@kl.op(
    args=dict(x=kl.tensor("M N"), w=kl.tensor("N"), b=kl.tensor("N")),
    reduces="N",
    where=is_filled,
    cases=kl.cases(**ROWS),
)
def layer_norm(x, w, b):
    return functional.layer_norm(x, (x.shape[-1],), w, b, EPS)


# Only inputs come from outside: weights and bias are the layer's own parameters.
@layer_norm.impl("triton", contiguous=["w", "b"])
def _(x, w, b):
    return LayerNormAutoGrad.apply(x, w, b, EPS)


@kl.op(args=dict(x=kl.tensor("M N"), w=kl.tensor("N")), reduces="N", where=is_filled, cases=kl.cases(**ROWS))
def rms_norm(x, w):
    return functional.rms_norm(x, (x.shape[-1],), w, EPS)


# Only inputs come from outside: weights and bias are the layer's own parameters.
@rms_norm.impl("triton", contiguous=["w"])
def _(x, w):
    return RMSNormAutoGrad.apply(x, w, EPS)


@kl.op(args=dict(x=kl.tensor("M N")), where=lambda case: is_filled(case) and case.N % 2 == 0, cases=kl.cases(**ROWS))
def glu(x):
    return functional.glu(x, -1)


@glu.impl("triton")
def _(x):
    return GLUAutoGrad.apply(x, -1, "sigmoid")


@kl.op(
    args=dict(x=kl.tensor("M K"), w=kl.tensor("K N"), b=kl.tensor("N")),
    reduces="K",
    where=lambda case: min(case.M, case.K, case.N) > 0,
    cases=kl.cases(M=[512], K=[256], N=[512], dtype=["float32"]),
)
def linear(x, w, b):
    return x @ w + b


# Only inputs come from outside: weights and bias are the layer's own parameters.
@linear.impl("triton", contiguous=["b"])
def _(x, w, b):
    return LinearAutoGrad.apply(x, w, b, None)


@kl.op(
    args=dict(x=kl.tensor("M N"), target=kl.index("M", below="N")),
    reduces="N",
    where=is_filled,
    cases=kl.cases(**ROWS),
)
def cross_entropy(x, target):
    return functional.cross_entropy(x, target)


@cross_entropy.impl("triton")
def _(x, target):
    return CrossEntropyLossAutoGrad.apply(x, target)


@kl.op(args=dict(x=kl.tensor("M N"), y=kl.tensor("M N")), reduces="M N", where=is_filled, cases=kl.cases(**ROWS))
def mse_loss(x, y):
    return functional.mse_loss(x, y)


@mse_loss.impl("triton")
def _(x, y):
    return PLossAutoGrad.apply(x, y, 2, "mean")
