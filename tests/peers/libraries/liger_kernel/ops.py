"""The functions of `liger_kernel.ops` that kernellab calls."""

import torch
from torch.nn import functional

_WIDEST_ROW = 65536


def _refuse_wide(x):
    if x.shape[-1] > _WIDEST_ROW:
        raise RuntimeError(f"Cannot launch Triton kernel since n = {x.shape[-1]} exceeds the recommended blocksize")


def _gradients(fn, upstream, *inputs):
    with torch.enable_grad():
        leaves = [t.detach().requires_grad_() for t in inputs]
        return torch.autograd.grad(fn(*leaves), leaves, upstream)


def _rms_norm(x, weight, eps, offset, casting_mode):
    assert casting_mode in ("llama", "gemma", "none")
    wide = x.float()
    y = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps)
    if casting_mode == "llama":
        y = y.to(x.dtype)
    return (y if weight is None else y * (weight + offset)).to(x.dtype)


class LigerSoftmaxFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, input_: torch.Tensor):
        _refuse_wide(input_)
        y = torch.softmax(input_.contiguous(), -1)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, grad_output):
        (y,) = ctx.saved_tensors
        return y * (grad_output - (grad_output * y).sum(-1, keepdim=True))


class _GatedFunction(torch.autograd.Function):
    """Backward writes the gradients into the inputs."""

    @staticmethod
    def backward(ctx, dc):
        a, b = ctx.saved_tensors
        da, db = _gradients(ctx.fn, dc, a, b)
        return a.data.copy_(da), b.data.copy_(db), *(None,) * ctx.constants

    @staticmethod
    def _forward(ctx, fn, a, b, constants=0):
        _refuse_wide(a)
        a, b = a.contiguous(), b.contiguous()
        ctx.save_for_backward(a, b)
        ctx.fn, ctx.constants = fn, constants
        return fn(a, b)


class LigerSiLUMulFunction(_GatedFunction):
    @staticmethod
    def forward(ctx, a, b, gate_multiplier: float = 1.0, down_multiplier: float = 1.0):
        def fn(a, b):
            return functional.silu(a * gate_multiplier) * b * down_multiplier

        return _GatedFunction._forward(ctx, fn, a, b, constants=2)


class LigerGELUMulFunction(_GatedFunction):
    @staticmethod
    def forward(ctx, a, b):
        return _GatedFunction._forward(ctx, lambda a, b: functional.gelu(a, approximate="tanh") * b, a, b)


class LigerLayerNormFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, X, W, B, eps):
        _refuse_wide(X)
        ctx.save_for_backward(X, W, B)
        ctx.fn = lambda x, w, b: functional.layer_norm(x, w.shape, w, b, eps)
        return ctx.fn(X, W, B)

    @staticmethod
    def backward(ctx, dY):
        return *_gradients(ctx.fn, dY, *ctx.saved_tensors), None


class LigerRMSNormFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, X, W, eps, offset=0.0, casting_mode="llama", in_place=True, row_mode=None):
        _refuse_wide(X)
        ctx.save_for_backward(X, *([] if W is None else [W]))
        ctx.fn = lambda x, w=None: _rms_norm(x, w, eps, offset, casting_mode)
        ctx.in_place = in_place
        return _rms_norm(X, W, eps, offset, casting_mode)

    @staticmethod
    def backward(ctx, dY):
        dx, *dw = _gradients(ctx.fn, dY, *ctx.saved_tensors)
        return dY.copy_(dx) if ctx.in_place else dx, *(dw or [None]), *[None] * 5


class LigerFusedAddRMSNormFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, X, R, W, eps, offset=0.0, casting_mode="llama", in_place=False):
        _refuse_wide(X)
        total = (X + R).contiguous()
        ctx.save_for_backward(total, W)
        ctx.fn = lambda s, w: _rms_norm(s, w, eps, offset, casting_mode)
        return ctx.fn(total, W), total

    @staticmethod
    def backward(ctx, dY, dS_out):
        dx, dw = _gradients(ctx.fn, dY, *ctx.saved_tensors)
        dx = dx + dS_out
        return dx, dx, dw, *[None] * 5


def _turn(x, cos, sin, rotary_dim):
    """In place, where heads lie beside each other in memory; half of the table's columns are enough."""
    x = x.transpose(1, 2).contiguous()
    half = rotary_dim // 2
    cos, sin = (table[..., :half][None, :, None, :] for table in (cos, sin))
    a, b = x[..., :half], x[..., half:rotary_dim]
    turned = a * cos - b * sin, b * cos + a * sin
    a.data.copy_(turned[0])
    b.data.copy_(turned[1])
    return x.transpose(1, 2)


class LigerRopeFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, cos, sin, position_ids=None, unsqueeze_dim=1, rotary_dim=None):
        ctx.save_for_backward(cos, sin)
        ctx.rotary_dim = cos.shape[-1] if rotary_dim is None else rotary_dim
        return tuple(_turn(x, cos, sin, ctx.rotary_dim) for x in (q, k))

    @staticmethod
    def backward(ctx, dq, dk):
        cos, sin = ctx.saved_tensors
        return *(_turn(x, cos, -sin, ctx.rotary_dim) for x in (dq, dk)), *[None] * 5


class LigerCrossEntropyFunction(torch.autograd.Function):
    """Forward writes the gradient over the logits."""

    @staticmethod
    def forward(
        ctx,
        _input: torch.Tensor,
        target: torch.Tensor,
        weight,
        ignore_index: int = -100,
        lse_square_scale: float = 0.0,
        label_smoothing: float = 0.0,
        reduction: str = "mean",
        softcap: float | None = None,
        return_z_loss: bool = False,
        return_token_accuracy: bool = False,
        return_predicted_tokens: bool = False,
    ):
        assert (weight, lse_square_scale, softcap) == (None, 0.0, None)

        def fn(logits):
            return functional.cross_entropy(
                logits, target, ignore_index=ignore_index, label_smoothing=label_smoothing, reduction=reduction
            )

        loss = fn(_input)
        if _input.requires_grad:
            (gradient,) = _gradients(fn, torch.ones_like(loss), _input)
            ctx.save_for_backward(_input.data.copy_(gradient))
        return loss, None, None, None

    @staticmethod
    def backward(ctx, grad_output, grad_output2, grad_output3, grad_output4):
        (gradient,) = ctx.saved_tensors
        upstream = grad_output.unsqueeze(1) if grad_output.dim() else grad_output
        return gradient * upstream, *[None] * 10
