"""Stands in for FlagGems 5.0.2: the functions that kernellab calls, with the same parameters and side effects."""

import torch
from torch.nn import functional

__version__ = "5.0.2"
aten = torch.ops.aten


def gelu(self, *, approximate="none"):
    return aten.gelu(self.detach(), approximate=approximate)


def gelu_backward(grad_output, self, *, approximate="none"):
    return aten.gelu_backward(grad_output, self, approximate=approximate)


def silu(self):
    return aten.silu(self.detach())


def silu_backward(grad_output, self):
    return aten.silu_backward(grad_output, self)


def silu_and_mul(A, B):
    return functional.silu(A) * B


def gelu_and_mul(x, y, approximate="none"):
    return functional.gelu(x, approximate=approximate) * y


def softmax(self, dim, half_to_float=False):
    return aten._softmax(self.detach().contiguous(), dim, half_to_float)


def softmax_backward(grad_output, output, dim, input_dtype):
    return aten._softmax_backward_data(grad_output, output, dim, input_dtype)


def log_softmax(self, dim, half_to_float=False):
    return aten._log_softmax(self.detach().contiguous(), dim, half_to_float)


def log_softmax_backward(grad_output, output, dim, input_dtype):
    return aten._log_softmax_backward_data(grad_output, output, dim, input_dtype)


def layer_norm(input, normalized_shape, weight=None, bias=None, eps=1e-5):
    return aten.native_layer_norm(input.detach(), list(normalized_shape), weight, bias, eps)


def layer_norm_backward(grad_out, input, normalized_shape, mean, rstd, weight=None, bias=None, output_mask=None):
    return aten.native_layer_norm_backward(
        grad_out, input, list(normalized_shape), mean, rstd, weight, bias, output_mask
    )


def rms_norm(x, normalized_shape, weight, eps=1e-5):
    assert weight is not None
    return functional.rms_norm(x, list(normalized_shape), weight, eps)


def fused_add_rms_norm(x, residual, normalized_shape, weight, eps=1e-5):
    """Both tensors are overwritten where they are contiguous, without autograd's knowledge."""
    x, residual = x.contiguous(), residual.contiguous()
    with torch.no_grad():
        residual.data.add_(x)
        x.data.copy_(functional.rms_norm(residual, list(normalized_shape), weight, eps))
    return x, residual


@torch.no_grad()
def apply_rotary_pos_emb(q, k, cos, sin, position_ids=None, rotary_interleaved=False, inplace=False):
    """q and k are [batch, position, head, column]."""
    assert position_ids is None
    assert not inplace
    cos, sin = (table[None, : q.shape[1], None, :] for table in (cos, sin))

    def turn(x):
        x = x.view(x.shape)  # the kernel sees rows of heads: no other strides
        pairs = x.unflatten(-1, (-1, 2)).unbind(-1) if rotary_interleaved else x.chunk(2, -1)
        turned = pairs[0] * cos - pairs[1] * sin, pairs[1] * cos + pairs[0] * sin
        return torch.stack(turned, -1).flatten(-2) if rotary_interleaved else torch.cat(turned, -1)

    return turn(q), turn(k)


def cross_entropy_loss(inp, target, weight=None, reduction="mean", ignore_index=-100, label_smoothing=0.0):
    return functional.cross_entropy(
        inp, target, weight, ignore_index=ignore_index, reduction=reduction, label_smoothing=label_smoothing
    )


def dropout(input, p, train=True):
    return aten.native_dropout(input.detach(), p, train)


def dropout_backward(grad_output, mask, scale):
    return aten.native_dropout_backward(grad_output, mask, scale)
