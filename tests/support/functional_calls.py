"""Calls of every function of kernellab.functional, with the function of PyTorch that computes the same."""

from __future__ import annotations

import torch
import torch.nn.functional as F

# Other tensors of the same values.
LAYOUTS = {
    "contiguous": lambda x: x,
    "columns cut off": lambda x: torch.cat([x, x], -1)[..., : x.shape[-1]],
    "rows apart": lambda x: torch.stack([x, x], -2)[..., 0, :],
    "transposed": lambda x: x.transpose(0, -1).contiguous().transpose(0, -1),
    "expanded": lambda x: x[:1].expand(x.shape),
    "negated lazily": lambda x: torch._neg_view(x),
    "no rows": lambda x: x[:0],
}
NAMESAKES = ["gelu", "silu", "softmax", "log_softmax", "layer_norm", "rms_norm", "cross_entropy"]


def reference_rope(q, k, cos, sin, interleaved=False):
    """Each pair of columns as a complex number, times another."""

    def turn(x):
        pairs = x.unflatten(-1, (-1, 2)) if interleaved else torch.stack(x.chunk(2, -1), -1)
        turned = torch.view_as_real(torch.view_as_complex(pairs.contiguous()) * torch.complex(cos, sin))
        return turned.flatten(-2) if interleaved else torch.cat(turned.unbind(-1), -1)

    return turn(q), turn(k)


def reference_add_rms_norm(x, residual, shape, weight=None, eps=None):
    total = x + residual
    return F.rms_norm(total, shape, weight, eps), total


def reference_linear_gelu(x, weight, bias=None, approximate="none"):
    return F.gelu(F.linear(x, weight, bias), approximate=approximate)


def reference_linear_cross_entropy(x, linear_weight, target, *, linear_bias=None, ignore_index=-100, **options):
    return F.cross_entropy(F.linear(x, linear_weight, linear_bias), target, ignore_index=ignore_index, **options)


REFERENCES = {
    **{name: getattr(F, name) for name in NAMESAKES},
    "swiglu": lambda gate, up: F.silu(gate) * up,
    "geglu": lambda gate, up, approximate="none": F.gelu(gate, approximate=approximate) * up,
    "add_rms_norm": reference_add_rms_norm,
    "linear_gelu": reference_linear_gelu,
    "linear_cross_entropy": reference_linear_cross_entropy,
    "rope": reference_rope,
}


def values(*shape, seed=0):
    """The same numbers for the same shape and seed."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def calls(layout=lambda x: x, device="cpu", dtype=torch.float32):
    """For every call, a function of the function to call: the inputs that take a gradient, and the call."""

    def make(*shape, seed):
        return values(*shape, seed=seed).to(device, dtype)

    x, y = layout(make(6, 16, seed=0)), layout(make(6, 16, seed=1))
    weight, bias = make(16, seed=2), make(16, seed=3)
    target = torch.tensor([1, 3, -100, 0, 15, 7], device=device)[: len(x)]
    head = layout(make(10, 16, seed=4))
    q, k = layout(make(2, 3, 5, 8, seed=0)), layout(make(2, 1, 5, 8, seed=1))
    tables = (make(5, 4, seed=2), make(5, 4, seed=3))
    return {
        "gelu": lambda f: ([x], lambda x: f(x)),
        "gelu tanh": lambda f: ([x], lambda x: f(x, approximate="tanh")),
        "silu": lambda f: ([x], lambda x: f(x)),
        "swiglu": lambda f: ([x, y], lambda x, y: f(x, y)),
        "geglu": lambda f: ([x, y], lambda x, y: f(x, y, approximate="tanh")),
        "softmax": lambda f: ([x], lambda x: f(x, dim=-1)),
        "log_softmax": lambda f: ([x], lambda x: f(x, dim=-1)),
        "softmax 1": lambda f: ([x], lambda x: f(x, 1, dtype=x.dtype)),
        "softmax before ones": lambda f: ([x[..., None, None]], lambda x: f(x, dim=1)),
        "layer_norm": lambda f: ([x, weight, bias], lambda x, w, b: f(x, (16,), w, b)),
        "layer_norm plain": lambda f: ([x], lambda x: f(x, [16], eps=0.1)),
        "rms_norm": lambda f: ([x, weight], lambda x, w: f(x, (16,), w)),
        "rms_norm tiny": lambda f: ([x * 1e-4], lambda x: f(x, torch.Size([16]))),
        "add_rms_norm": lambda f: ([x, y, weight], lambda x, y, w: f(x, y, (16,), w, 1e-6)),
        "cross_entropy": lambda f: ([x], lambda x: f(x, target)),
        "cross_entropy none": lambda f: ([x], lambda x: f(x, target, reduction="none", label_smoothing=0.1)),
        "cross_entropy sum": lambda f: ([x], lambda x: f(x, target.clamp(min=0), ignore_index=3, reduction="sum")),
        "linear_gelu": lambda f: ([x, head, make(len(head), seed=5)], lambda x, w, b: f(x, w, b)),
        "linear_gelu tanh": lambda f: ([x, head], lambda x, w: f(x, w, approximate="tanh")),
        "linear_cross_entropy": lambda f: ([x, y], lambda x, w: f(x, w, target.clamp(max=len(y) - 1))),
        "linear_cross_entropy none": lambda f: (
            [x, head],
            lambda x, w: f(x, w, target.clamp(-1, len(head) - 1), ignore_index=-1, reduction="none"),
        ),
        "rope": lambda f: ([q, k], lambda q, k: f(q, k, *tables)),
        "rope interleaved": lambda f: ([q, k], lambda q, k: f(q, k, *tables, interleaved=True)),
    }


def outcome(inputs, call, dtype=None):
    """The results of a call and the gradients of its inputs. Upstream gradients are rounded to the dtype, if one is
    given, else to that of the results."""
    inputs = [x.detach().requires_grad_() for x in inputs]
    results = call(*inputs)
    results = results if isinstance(results, tuple) else (results,)
    upstream = [values(*y.shape, seed=5).to(dtype or y.dtype).to(y) for y in results]
    return results, torch.autograd.grad(results, inputs, upstream)


def assert_as_exact(ours, theirs, exact):
    """Errors of ours are at most twice those of theirs, and four roundings."""
    for pair in zip((*ours[0], *ours[1]), (*theirs[0], *theirs[1]), (*exact[0], *exact[1]), strict=True):
        our, their, true = pair
        rounding = torch.finfo(our.dtype).eps * true.abs().max()
        limit = 2 * (their.double() - true).abs().max() + 4 * rounding
        assert (our.double() - true).abs().max() <= limit
