"""Attention for the CPU: calls the functions of cpp.cpp."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import torch

from kernellab.ops.attention.settings import Settings, new_like, new_lse, padded_keys
from kernellab.ops.floats import CPP_NAMES, require_float
from kernellab.ops.gradients import Given, Tensors
from kernellab.ops.layout import with_unit_columns
from kernellab.ops.maps_cpp import entry

# Gradients of keys are added up by one thread for each group of heads, or for slices of the keys where there are few
# groups. The number of slices depends on the shape alone, so that results do not depend on the number of threads.
FEWEST_TASKS, FEWEST_KEYS = 16, 512
_FAR = sys.maxsize // 4  # beyond every key, with room to add places to it


def forward(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, bias: torch.Tensor | None, settings: Settings
) -> Tensors:
    require_float(q, "attention", CPP_NAMES)
    y, lse = new_like(q), new_lse(q)
    if q.numel():
        _call("attention", q, k, v, bias, settings, *_place(y), lse)
    return y, lse


def backward(
    upstream: torch.Tensor,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    bias: torch.Tensor | None,
    y: torch.Tensor,
    lse: torch.Tensor,
    settings: Settings,
    wanted: Sequence[bool],
) -> Given:
    upstream, y = with_unit_columns(upstream), with_unit_columns(y)
    dq, dk, dv = (new_like(x) if is_wanted else None for x, is_wanted in zip((q, k, v), wanted, strict=False))
    # Blocks of pairs that no query sees are left out.
    dbias = torch.zeros(bias.shape, dtype=bias.dtype) if bias is not None and wanted[3] else None
    gradients = [dq, dk, dv, dbias]
    if not (q.numel() and k.numel()):
        return [None if x is None else x.zero_() for x in gradients]
    slices = max(1, min(FEWEST_TASKS // (k.shape[0] * k.shape[1]), k.shape[2] // FEWEST_KEYS))
    partial = lse.new_empty(slices, *q.shape) if slices > 1 and dq is not None else None
    _call(
        "attention_backward", q, k, v, bias, settings, *_place(upstream), *_place(y), lse.contiguous(),
        *_place(dq), *_place(dk), *_place(dv), _pointer(dbias), _pointer(partial), slices,
    )  # fmt: skip
    return gradients


def _call(
    function: str,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    bias: torch.Tensor | None,
    settings: Settings,
    *rest: torch.Tensor | int,
) -> None:
    q, k, v = (with_unit_columns(x) for x in (q, k, v))
    bias = None if bias is None else bias.resolve_neg()
    (batches, heads, queries, columns), (groups, keys) = q.shape, k.shape[1:3]
    band = settings.band(queries, keys)
    first = -_FAR if band.first is None else band.first
    last = _FAR if band.last is None else band.last
    last_kept, factor = settings.keep_rule
    entry("attention", function, q.dtype)(
        *_place(q), *_place(k), *_place(v), _pointer(bias), *((0,) * 4 if bias is None else bias.stride()),
        batches, heads, groups, queries, keys, columns, settings.scale_for(columns), first, last,
        *settings.stream.as_int64(), last_kept, float(factor), padded_keys(keys), int(settings.dropout_p > 0),
        torch.get_num_threads(), *rest,
    )  # fmt: skip


def _place(x: torch.Tensor | None) -> tuple[torch.Tensor | int, ...]:
    """Where the rows of a tensor are."""
    return (0,) * 4 if x is None else (x, *x.stride()[:3])


def _pointer(x: torch.Tensor | None) -> torch.Tensor | int:
    return 0 if x is None else x
