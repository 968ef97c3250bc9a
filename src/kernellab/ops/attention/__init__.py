"""Scaled dot-product attention: every query takes the mean of the values, weighted by how well it matches their keys.

The scores of all pairs of a query and a key need not be in memory at once: the implementations but `manual` and
`torch-math` compute them tile by tile.
"""

import torch

import kernellab as kl
from kernellab.ops.attention.sdpa import backend_takes, sdpa
from kernellab.ops.attention.settings import CONTRACT, Settings, attention_passes
from kernellab.ops.floats import has_gpu_kernel
from kernellab.ops.gradients import differentiable


def _pairs(q, k, causal, window):
    """How many pairs of a query and a key count, of each head."""
    queries, keys = q.shape[2], k.shape[2]
    first, last = Settings(causal, window=window).band(queries, keys)
    rows = torch.arange(queries)
    begin = torch.zeros_like(rows) if first is None else (rows + first).clamp(0, keys)
    end = torch.full_like(rows, keys) if last is None else (rows + last + 1).clamp(0, keys)
    return int((end - begin).clamp(min=0).sum())


def _flops(q, k, causal, window, products):
    """Of so many matrix products, each over all pairs that count."""
    return {"matmul": 2 * products * q.shape[0] * q.shape[1] * q.shape[3] * _pairs(q, k, causal, window)}


def _cost(q, k, v, bias=None, *, causal=None, window=None, **_):
    return kl.Cost(read=[q, k, v, bias], write=[q], flops=_flops(q, k, causal, window, 2))


def _grad_cost(q, k, v, bias=None, *, causal=None, window=None, **_):
    """Scores, and four gradients: of the weights, q, k and v. The result and the upstream gradient are of q's size."""
    return kl.Cost(read=[q, q, q, k, v, bias], write=[q, k, v, bias], flops=_flops(q, k, causal, window, 5))


@kl.op(
    args=dict(
        q=kl.tensor("B H Sq D"),
        k=kl.tensor("B Hk Sk D"),
        v=kl.tensor("B Hk Sk D"),
        bias=kl.optional(kl.tensor("B H Sq Sk")),
    ),
    options=dict(
        causal=[None, "bottom_right", "top_left"],
        scale=[None, 0.3],
        window=[None, 7],
        dropout_p=[0.0, 0.2],
        seed=[(1 << 32) + 1],
        offset=[(1 << 32) + 7],
    ),
    seed="seed",
    dims=dict(Hk="H", Sk="Sq"),
    where=lambda case: case.D > 0 and case.Hk > 0 and case.H % case.Hk == 0,
    reduces="Sk",
    cost=_cost,
    grad_cost=_grad_cost,
    dtypes=["float32", "bfloat16", "float16", "float64"],
    any_strides=True,  # PyTorch's depend on the backend that it chooses
    cases=kl.cases(
        shape=[(8, 32, 2048, 64), (8, 16, 2048, 128), (2, 32, 8192, 64), (2, 16, 8192, 128)],
        dtype=["bfloat16"],
        cpu=dict(shape=[(1, 8, 512, 64)], dtype=["float32"]),
    ),
)
def attention(q, k, v, bias=None, *, causal=None, scale=None, window=None, dropout_p=0.0, seed=0, offset=0):
    """softmax(scale·q·kᵀ + bias)·v over the keys that a query sees; 0 where it sees none.

    Heads of q share those of k and v in groups: head h takes k's head h // (H // Hk). The scale is 1/√D unless it is
    given. Query i lies beside key i + shift, where the shift is Sk − Sq, and 0 for causal="top_left". With `causal` it
    sees no key after that one, with `window` none farther away than `window`, on either side. Dropout sets weights to 0
    with probability dropout_p and divides the others by 1 − dropout_p. Which ones follows from seed, offset and the
    pair's place alone (`Settings.weight_factors`), bit for bit in every implementation.
    """
    settings = Settings(causal, scale, window, dropout_p, seed, offset)
    (queries, columns), keys = q.shape[2:], k.shape[2]
    group = q.shape[1] // k.shape[1]
    k, v = (x.repeat_interleave(group, dim=1) for x in (k, v))
    scores = q @ k.transpose(-1, -2) * settings.scale_for(columns)
    if bias is not None:
        scores = scores + bias
    places = [torch.arange(n, device=q.device) for n in (queries, keys)]
    scores = scores.masked_fill(~settings.band(queries, keys).seen(*places), -torch.inf)
    if keys == 0:
        return scores @ v
    # A constant subtracted from a row changes neither its weights nor the gradient.
    peak = scores.detach().amax(dim=-1, keepdim=True)
    e = torch.exp(scores - peak.masked_fill(peak == -torch.inf, 0))
    total = e.sum(dim=-1, keepdim=True)
    weights = e / total.masked_fill(total == 0, 1)
    if dropout_p > 0:
        weights = weights * settings.weight_factors(q.shape[:2], queries, keys, q.device).to(q.dtype)
    return weights @ v


@attention.compile
def _(q, k, v, bias=None, **options):
    from kernellab.ops.attention.flex import flex, is_covered

    settings = Settings(**options)
    if is_covered(q, k, settings):
        return flex(q, k, v, bias, settings)
    return attention.reference(q, k, v, bias, **options)


@attention.impl("torch", supports=backend_takes("torch"))
def _(q, k, v, bias=None, **options):
    return sdpa("torch", q, k, v, bias, **options)


@attention.impl("torch-math", supports=backend_takes("torch-math"))
def _(q, k, v, bias=None, **options):
    return sdpa("torch-math", q, k, v, bias, **options)


@attention.impl("torch-flash", supports=backend_takes("torch-flash"))
def _(q, k, v, bias=None, **options):
    return sdpa("torch-flash", q, k, v, bias, **options)


@attention.impl("torch-efficient", supports=backend_takes("torch-efficient"))
def _(q, k, v, bias=None, **options):
    return sdpa("torch-efficient", q, k, v, bias, **options)


@attention.impl("torch-cudnn", supports=backend_takes("torch-cudnn"))
def _(q, k, v, bias=None, **options):
    return sdpa("torch-cudnn", q, k, v, bias, **options)


@attention.impl("tiled")
@differentiable(CONTRACT)
def _(causal=None, scale=None, window=None, dropout_p=0.0, seed=0, offset=0):
    from kernellab.ops.attention.tiled import backward, forward

    return attention_passes(forward, backward, Settings(causal, scale, window, dropout_p, seed, offset))


def _kernel_takes(case):
    """`supports=` of the Triton implementations."""
    return has_gpu_kernel(case) if case.D <= 256 else "takes heads of at most 256 columns"


@attention.impl("triton", supports=_kernel_takes)
@differentiable(CONTRACT)
def _(causal=None, scale=None, window=None, dropout_p=0.0, seed=0, offset=0):
    from kernellab.ops.attention.triton import backward, forward

    return attention_passes(forward, backward, Settings(causal, scale, window, dropout_p, seed, offset))


@attention.impl("triton-atomic", supports=_kernel_takes, repeatable=False)
@differentiable(CONTRACT)
def _(causal=None, scale=None, window=None, dropout_p=0.0, seed=0, offset=0):
    from kernellab.ops.attention.triton import backward_by_atomics, forward

    return attention_passes(forward, backward_by_atomics, Settings(causal, scale, window, dropout_p, seed, offset))


def _decodes(case):
    """`supports=` of the implementation for few queries."""
    if case.Sq > 16:
        return "is for at most 16 queries"
    return "draws no random numbers for dropout" if case.dropout_p > 0 else _kernel_takes(case)


@attention.impl("triton-decode", supports=_decodes)
@differentiable(CONTRACT)
def _(causal=None, scale=None, window=None, dropout_p=0.0, seed=0, offset=0):
    from kernellab.ops.attention.decode import forward
    from kernellab.ops.attention.triton import backward

    return attention_passes(forward, backward, Settings(causal, scale, window, dropout_p, seed, offset))


@attention.impl("cpp")
@differentiable(CONTRACT)
def _(causal=None, scale=None, window=None, dropout_p=0.0, seed=0, offset=0):
    from kernellab.ops.attention.cpp import backward, forward

    return attention_passes(forward, backward, Settings(causal, scale, window, dropout_p, seed, offset))
