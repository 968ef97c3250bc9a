"""FlagGems 5.0.2: Triton kernels in the place of PyTorch's own operators.

Some of its forward and backward kernels are two functions that PyTorch's autograd calls in the place of its own. Here
`join_passes` connects them.
"""

import flag_gems
import torch

from kernellab.peers import PeerLibrary
from kernellab.peers._passes import join_passes

flaggems = PeerLibrary(
    module="flag_gems",
    package="flag_gems",
    # With its dependencies it would install another NumPy.
    install="pip install --no-deps flag_gems pyyaml sqlalchemy",
    kind="triton",
    supports=lambda case: case.dtype != "float64" or "computes in float32",
)


def has_weight(case):
    return bool(case.weight) or "needs a weight"


@flaggems.impl("gelu")
def _(x, *, approximate="tanh"):
    def forward(x):
        return flag_gems.gelu(x, approximate=approximate), [x]

    def backward(upstream, x):
        return [flag_gems.gelu_backward(upstream, x, approximate=approximate)]

    return join_passes(forward, backward, x)


@flaggems.impl("silu")
def _(x):
    def forward(x):
        return flag_gems.silu(x), [x]

    def backward(upstream, x):
        return [flag_gems.silu_backward(upstream, x)]

    return join_passes(forward, backward, x)


@flaggems.impl("swiglu")
def _(gate, up):
    return flag_gems.silu_and_mul(gate, up)


@flaggems.impl("geglu")
def _(gate, up, *, approximate="tanh"):
    return flag_gems.gelu_and_mul(gate, up, approximate)


@flaggems.impl("softmax")
def _(x):
    def forward(x):
        y = flag_gems.softmax(x, -1)
        return y, [y]

    def backward(upstream, y):
        return [flag_gems.softmax_backward(upstream, y, -1, y.dtype)]

    return join_passes(forward, backward, x)


@flaggems.impl("log_softmax")
def _(x):
    def forward(x):
        y = flag_gems.log_softmax(x, -1)
        return y, [y]

    def backward(upstream, y):
        return [flag_gems.log_softmax_backward(upstream, y, -1, y.dtype)]

    return join_passes(forward, backward, x)


@flaggems.impl("layer_norm")
def _(x, weight=None, bias=None, *, eps=1e-5):
    shape, wanted = x.shape[-1:], [True, weight is not None, bias is not None]

    def forward(x, weight, bias):
        y, mean, rstd = flag_gems.layer_norm(x, shape, weight, bias, eps)
        return y, [x, mean, rstd, weight, bias]

    def backward(upstream, x, mean, rstd, weight, bias):
        return flag_gems.layer_norm_backward(upstream, x, shape, mean, rstd, weight, bias, wanted)

    return join_passes(forward, backward, x, weight, bias)


@flaggems.impl("rms_norm", supports=has_weight)
def _(x, weight=None, *, eps=1e-6):
    return flag_gems.rms_norm(x, x.shape[-1:], weight, eps)


# The results are written over x and the residual. It has no backward, which autograd is told: of inputs that it copies
# first, autograd would differentiate the copying.
@flaggems.impl("add_rms_norm", supports=has_weight, mutates=["x", "residual"])
@torch.no_grad()
def _(x, residual, weight=None, *, eps=1e-6):
    return flag_gems.fused_add_rms_norm(x, residual, x.shape[-1:], weight, eps)


# It wants heads beside each other in memory, [batch, position, head, column]. It has no backward.
@flaggems.impl("rope", contiguous=["cos", "sin"])
def _(q, k, cos, sin, *, interleaved=False):
    q, k = q.transpose(1, 2).contiguous(), k.transpose(1, 2).contiguous()
    turned_q, turned_k = flag_gems.apply_rotary_pos_emb(q, k, cos, sin, rotary_interleaved=interleaved)
    return turned_q.transpose(1, 2), turned_k.transpose(1, 2)


@flaggems.impl("cross_entropy")
def _(logits, target, *, reduction="mean", label_smoothing=0.0, ignore_index=-100):
    return flag_gems.cross_entropy_loss(
        logits, target, reduction=reduction, ignore_index=ignore_index, label_smoothing=label_smoothing
    )


# It draws a mask of its own. The residual is added by PyTorch.
@flaggems.impl("dropout_add", random=True)
def _(x, residual, *, p=0.1, seed=0, offset=0):
    def forward(x, residual):
        y, mask = flag_gems.dropout(x, p, True)
        return y + residual, [mask]

    def backward(upstream, mask):
        return flag_gems.dropout_backward(upstream, mask, 0.0 if p == 1 else 1 / (1 - p)), upstream

    return join_passes(forward, backward, x, residual)
