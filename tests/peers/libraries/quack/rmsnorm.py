import torch
from torch.nn import functional

aten = torch.ops.aten


def rmsnorm(
    x,
    weight=None,
    bias=None,
    residual=None,
    out_dtype=None,
    residual_dtype=None,
    eps=1e-6,
    prenorm=False,
    weight_offset=0.0,
):
    assert (bias, out_dtype, residual_dtype, weight_offset) == (None, None, None, 0.0)
    total = x if residual is None else (x + residual).contiguous()
    y = functional.rms_norm(total, x.shape[-1:], weight, eps)
    return (y, total) if prenorm and residual is not None else y


def layernorm_fwd(x, weight, bias=None, eps=1e-6, return_rstd=False, return_mean=False):
    assert x.dim() == 2, "Input must be 2D"
    assert weight.dtype == torch.float32, "Weight must be float32"
    y, mean, rstd = aten.native_layer_norm(x.detach(), [x.shape[-1]], weight, bias, eps)
    assert return_rstd
    assert return_mean
    return y, rstd.flatten(), mean.flatten()


def layernorm_bwd(x, weight, dout, rstd, mean, has_bias=True):
    assert x.dim() == 2, "Input must be 2D"
    mask = [True, True, has_bias]
    bias = weight if has_bias else None
    return aten.native_layer_norm_backward(dout, x, [x.shape[-1]], mean[:, None], rstd[:, None], weight, bias, mask)
