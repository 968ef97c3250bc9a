"""Attention in Triton: the launches of its kernels, forward and backward.

The same launches serve batches of sequences of different lengths (`varlen.py`), which are packed one after the other.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
import triton
from triton.tools.tensor_descriptor import TensorDescriptor

from kernellab.build.cuda import same_device
from kernellab.ops.attention.settings import Settings, new_like, new_lse, padded_keys
from kernellab.ops.attention.triton_backward import (
    attention_backward_keys,
    attention_backward_queries,
    attention_prepare,
)
from kernellab.ops.attention.triton_forward import attention_forward
from kernellab.ops.attention.triton_sizes import OLDEST_GPU, WIDEST_HEAD, Sizes, sizes_for
from kernellab.ops.floats import require_float
from kernellab.ops.gpus import capability
from kernellab.ops.gradients import Given, Tensors
from kernellab.ops.layout import with_unit_columns

# Of what programs that run at the same time walk along: it should stay in the L2 cache.
_SHARED_BYTES = 16 << 20
_PREPARED_ROWS = 64  # of a program that prepares backward
_LOG2E = 1.4426950408889634
_LEAST_SCALE = 1e-37  # at a scale of 0, −∞ for a key that is not seen would become NaN


class Starts(NamedTuple):
    """Packed sequences: where each begins in q and in k, and where the last one ends, as int32; the longest lengths."""

    q: torch.Tensor
    k: torch.Tensor
    queries: int
    keys: int


@dataclass(frozen=True)
class Problem:
    """What a call asks of the kernels. Tensors are batch × heads × rows × columns; packed ones have a batch of 1."""

    settings: Settings
    batches: int
    heads: int
    kv_heads: int
    queries: int  # of the longest sequence
    keys: int
    columns: int
    starts: Starts | None = None

    @classmethod
    def of(cls, q: torch.Tensor, k: torch.Tensor, settings: Settings, starts: Starts | None = None) -> Problem:
        (batches, heads, queries, columns), (_, kv_heads, keys, _) = q.shape, k.shape
        if starts is not None:
            batches, queries, keys = len(starts.q) - 1, starts.queries, starts.keys
        return cls(settings, batches, heads, kv_heads, queries, keys, columns, starts)

    @property
    def group(self) -> int:
        """How many heads of q share one of k."""
        return self.heads // self.kv_heads

    @property
    def head_width(self) -> int:
        return max(16, triton.next_power_of_2(self.columns))

    @property
    def scale(self) -> float:
        return self.settings.scale_for(self.columns)

    def band(self) -> tuple[dict[str, int], dict[str, bool]]:
        """The arguments that say which keys a query sees: numbers, and those the kernels are compiled for."""
        if self.starts is None:
            first, last = self.settings.band(self.queries, self.keys)
        else:  # of every sequence another one
            first, last = self.settings.relative_band
        shifted = self.starts is not None and self.settings.causal != "top_left"
        numbers = {"first": first or 0, "last": last or 0}
        return numbers, {"HAS_FIRST": first is not None, "HAS_LAST": last is not None, "SHIFTED": shifted}

    def dropout(self) -> dict[str, int | float]:
        seed, stream_offset = self.settings.stream.as_int64()
        last_kept, factor = self.settings.keep_rule
        return {
            "seed": seed, "stream_offset": stream_offset, "last_kept": last_kept, "factor": factor,
            "pair_rows": self.queries, "padded": padded_keys(self.keys),
        }  # fmt: skip


def forward(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, bias: torch.Tensor | None, settings: Settings
) -> Tensors:
    """The result, and lse."""
    y, lse = new_like(q), new_lse(q)
    if y.numel():
        launch_forward(Problem.of(q, k, settings), q, k, v, bias, y, lse)
    return [y, lse]


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
    *,
    atomic: bool = False,
) -> Given:
    """The wanted gradients of q, k, v and the bias."""
    problem = Problem.of(q, k, settings)
    return launch_backward(problem, upstream, q, k, v, bias, y, lse, wanted, atomic=atomic)


backward_by_atomics = functools.partial(backward, atomic=True)


def launch_forward(
    problem: Problem,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    bias: torch.Tensor | None,
    y: torch.Tensor,
    lse: torch.Tensor,
) -> None:
    """Compute y and lse, which are given."""
    _require_supported(q)
    if problem.scale < 0:
        settings = replace(problem.settings, scale=-problem.scale)
        return launch_forward(replace(problem, settings=settings), -q, k, v, bias, y, lse)
    q, k, v = (with_unit_columns(x) for x in (q, k, v))
    sizes = sizes_for("forward", q, problem.head_width)
    tiles = triton.cdiv(problem.queries, sizes.queries)
    walked = _Walked(problem, sizes, sizes.keys, k, v)
    numbers, compiled = problem.band()
    step = _step(q, y, *walked.tensors)
    with same_device(q):
        attention_forward[(tiles * problem.batches * problem.heads,)](
            q, *walked.pointers, y, lse, bias, *_starts(problem),
            *_strides(step, q), *walked.strides(step), *_strides(step, y), *lse.stride()[:2], *_bias_strides(bias),
            problem.heads, problem.group, problem.queries, problem.keys, **numbers,
            scale=max(problem.scale * _LOG2E, _LEAST_SCALE), tiles=tiles,
            together=_together(problem.keys, k, problem.batches * problem.heads, problem.group),
            **problem.dropout(), STEP=step, D=problem.columns, HEAD=problem.head_width, QUERIES=sizes.queries,
            KEYS=sizes.keys, **compiled, EVEN=problem.starts is None and problem.keys % sizes.keys == 0,
            BIAS=bias is not None, DROPOUT=problem.settings.dropout_p > 0, PACKED=problem.starts is not None,
            DESCRIBED=walked.described, num_warps=sizes.warps, num_stages=sizes.stages,
        )  # fmt: skip
    return None


def launch_backward(
    problem: Problem,
    upstream: torch.Tensor,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    bias: torch.Tensor | None,
    y: torch.Tensor,
    lse: torch.Tensor,
    wanted: Sequence[bool],
    *,
    atomic: bool,
) -> Given:
    """The wanted gradients of q, k, v and the bias."""
    _require_supported(q)
    if problem.scale < 0:
        settings = replace(problem.settings, scale=-problem.scale)
        negative = replace(problem, settings=settings)
        dq, *others = launch_backward(negative, upstream, -q, k, v, bias, y, lse, wanted, atomic=atomic)
        return [None if dq is None else -dq, *others]
    upstream, q, k, v, y = (with_unit_columns(x) for x in (upstream, q, k, v, y))
    wants_q, wants_k, wants_v, wants_bias = wanted
    dq = dk = dv = dbias = None
    prepared = _prepare(upstream, y, lse)
    atomic = atomic and wants_q
    if atomic:
        sums = torch.zeros(q.shape, dtype=torch.float32, device=q.device)
        dk, dv = _backward_keys(problem, upstream, q, k, v, bias, prepared, sums)
        dq = new_like(q).copy_(sums)
    elif wants_k or wants_v:
        dk, dv = _backward_keys(problem, upstream, q, k, v, bias, prepared, None)
    if wants_bias or (wants_q and not atomic):
        by_rows, dbias = _backward_queries(problem, upstream, q, k, v, bias, prepared, wants_bias=wants_bias)
        dq = dq if atomic else by_rows
    return [dq, dk, dv, dbias]


def _prepare(upstream: torch.Tensor, y: torch.Tensor, lse: torch.Tensor) -> torch.Tensor:
    """The two numbers of each query that the kernels of backward read: [2, *lse.shape]."""
    batches, heads, rows, columns = y.shape
    prepared = torch.empty((2, *lse.shape), dtype=torch.float32, device=lse.device)
    if not lse.numel():
        return prepared
    lse = lse.contiguous()  # a hook on saved tensors may have changed its strides
    step, tiles = _step(upstream, y), triton.cdiv(rows, _PREPARED_ROWS)
    with same_device(y):
        attention_prepare[(tiles * batches * heads,)](
            upstream, y, lse, prepared, *_strides(step, upstream), *_strides(step, y), *lse.stride()[:2], heads, rows,
            lse.numel(), tiles, STEP=step, D=columns, HEAD=triton.next_power_of_2(columns), ROWS=_PREPARED_ROWS,
        )  # fmt: skip
    return prepared


def _backward_keys(
    problem: Problem,
    upstream: torch.Tensor,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    bias: torch.Tensor | None,
    prepared: torch.Tensor,
    dq: torch.Tensor | None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The gradients of k and v; that of q is added to dq, where it is given."""
    dk, dv = new_like(k), new_like(v)
    if not dk.numel():
        return dk, dv
    sizes = sizes_for("keys" if dq is None else "atomic", q, problem.head_width)
    tiles = triton.cdiv(problem.keys, sizes.keys)
    walked = _Walked(problem, sizes, sizes.queries, q, upstream)
    numbers, compiled = problem.band()
    step = _step(k, v, dk, dv, *walked.tensors)
    sums: torch.Tensor | TensorDescriptor | None = dq
    by_query: torch.Tensor | TensorDescriptor = prepared
    if walked.described:
        by_query = TensorDescriptor(prepared, [prepared.numel()], [1], [sizes.queries])
        if dq is not None:
            columns = problem.columns
            sums = TensorDescriptor(dq, [dq.numel() // columns, columns], [columns, 1], [sizes.queries, columns])
    even = problem.queries % sizes.queries == 0 and (dq is None or problem.keys % sizes.keys == 0)
    with same_device(q):
        attention_backward_keys[(tiles * problem.batches * problem.kv_heads,)](
            *walked.pointers, k, v, dk, dv, sums, by_query, bias, *_starts(problem), *walked.strides(step),
            *_strides(step, k, v, dk, dv), *((0, 0, 0) if dq is None else dq.stride()[:3]),
            *prepared.stride()[1:3], *_bias_strides(bias),
            problem.kv_heads, problem.group, problem.queries, problem.keys, **numbers,
            exponent_scale=max(problem.scale * _LOG2E, _LEAST_SCALE), scale=problem.scale, tiles=tiles,
            together=_together(problem.queries * problem.group, q, problem.batches * problem.kv_heads, 1),
            numbers=prepared[0].numel(), **problem.dropout(), STEP=step, D=problem.columns, HEAD=problem.head_width,
            QUERIES=sizes.queries, KEYS=sizes.keys, **compiled, EVEN=problem.starts is None and even,
            BIAS=bias is not None, DROPOUT=problem.settings.dropout_p > 0, PACKED=problem.starts is not None,
            DESCRIBED=walked.described, ATOMIC=dq is not None, num_warps=sizes.warps, num_stages=sizes.stages,
        )  # fmt: skip
    return dk, dv


def _backward_queries(
    problem: Problem,
    upstream: torch.Tensor,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    bias: torch.Tensor | None,
    prepared: torch.Tensor,
    *,
    wants_bias: bool,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """The gradient of q, and if it is wanted that of the bias."""
    dq = new_like(q)
    numbers, compiled = problem.band()
    # Pairs that do not count are not visited.
    new = torch.zeros if compiled["HAS_FIRST"] or compiled["HAS_LAST"] else torch.empty
    dbias = new(bias.shape, dtype=bias.dtype, device=bias.device) if bias is not None and wants_bias else None
    if not dq.numel():
        return dq, dbias
    sizes = sizes_for("queries", q, problem.head_width)
    tiles = triton.cdiv(problem.queries, sizes.queries)
    walked = _Walked(problem, sizes, sizes.keys, k, v)
    step = _step(q, upstream, dq, *walked.tensors)
    with same_device(q):
        attention_backward_queries[(tiles * problem.batches * problem.heads,)](
            q, upstream, *walked.pointers, dq, prepared, bias, dbias, *_starts(problem),
            *_strides(step, q, upstream), *walked.strides(step), *_strides(step, dq), *prepared.stride()[1:3],
            *_bias_strides(bias), *_bias_strides(dbias),
            problem.heads, problem.group, problem.queries, problem.keys, **numbers,
            exponent_scale=max(problem.scale * _LOG2E, _LEAST_SCALE), scale=problem.scale, tiles=tiles,
            together=_together(problem.keys, k, problem.batches * problem.heads, problem.group),
            numbers=prepared[0].numel(), **problem.dropout(), STEP=step, D=problem.columns, HEAD=problem.head_width,
            QUERIES=sizes.queries, KEYS=sizes.keys, **compiled,
            EVEN=problem.starts is None and problem.keys % sizes.keys == 0, BIAS=bias is not None,
            DROPOUT=problem.settings.dropout_p > 0, PACKED=problem.starts is not None, DESCRIBED=walked.described,
            DBIAS=dbias is not None, num_warps=sizes.warps, num_stages=sizes.stages,
        )  # fmt: skip
    return dq, dbias


def _require_supported(q: torch.Tensor) -> None:
    require_float(q, "attention")
    if q.shape[-1] > WIDEST_HEAD:
        raise ValueError(f"attention: heads have {q.shape[-1]} columns, and the kernels take {WIDEST_HEAD} at most")
    if q.is_cuda and capability(q.device) < OLDEST_GPU:  # their tiles do not fit into its shared memory
        raise ValueError("attention: the kernels need a GPU of compute capability 8.0 or later: use torch")


# The arguments of launches -----------------------------------------------------------------------------


class _Walked:
    """The two tensors that a kernel walks along, in tiles of so many rows: as pointers, or where the copy engine can
    load all their tiles, as descriptors."""

    def __init__(self, problem: Problem, sizes: Sizes, rows: int, *tensors: torch.Tensor) -> None:
        self._all = tensors
        described = None
        if sizes.described and problem.starts is None and problem.columns == problem.head_width:
            described = [_describe(x, rows) for x in tensors]
        self._matrices = [d for d in described or [] if d is not None]
        self.described = len(self._matrices) == len(tensors)

    @property
    def tensors(self) -> Sequence[torch.Tensor]:
        """Those that are passed as pointers."""
        return [] if self.described else self._all

    @property
    def pointers(self) -> Sequence[torch.Tensor | TensorDescriptor]:
        return [matrix.descriptor for matrix in self._matrices] if self.described else self._all

    def strides(self, step: int) -> list[int]:
        if self.described:
            return [number for matrix in self._matrices for number in matrix.steps]
        return _strides(step, *self._all)


class _Matrix(NamedTuple):
    """A tensor as a matrix in memory, whose rows hold a row of one head or of all heads, side by side."""

    descriptor: TensorDescriptor
    steps: tuple[int, int, int]  # from batch to batch in rows, from head to head in rows and in columns


def _describe(x: torch.Tensor, rows: int) -> _Matrix | None:
    """The matrix of which the copy engine loads tiles of so many rows, all of one head; None where there is none."""
    batches, heads, count, columns = x.shape
    width = x.stride(2)
    batch, head = (x.stride(d) if x.shape[d] > 1 else 0 for d in (0, 1))
    row_bytes = width * x.element_size()
    if not x.numel() or count % rows or width < columns or row_bytes % 16 or x.data_ptr() % 16 or batch % width:
        return None
    if head % width == 0:
        steps, used = (batch // width, head // width, 0), columns
    elif (heads - 1) * head + columns <= width:
        steps, used = (batch // width, 0, head), (heads - 1) * head + columns
    else:
        return None
    matrix_rows = (batches - 1) * steps[0] + (heads - 1) * steps[1] + count
    return _Matrix(TensorDescriptor(x, [matrix_rows, used], [width, 1], [rows, columns]), steps)


def _step(*tensors: torch.Tensor) -> int:
    """What strides are passed divided by: kernels then know that rows begin at multiples of 8 elements."""
    return 8 if all(stride % 8 == 0 for x in tensors for stride in x.stride()[:3]) else 1


def _strides(step: int, *tensors: torch.Tensor) -> list[int]:
    return [stride // step for x in tensors for stride in x.stride()[:3]]


def _bias_strides(bias: torch.Tensor | None) -> tuple[int, ...]:
    return (0, 0, 0, 0) if bias is None else bias.stride()


def _starts(problem: Problem) -> tuple[torch.Tensor | None, torch.Tensor | None]:
    return (None, None) if problem.starts is None else (problem.starts.q, problem.starts.k)


def _together(rows: int, x: torch.Tensor, heads: int, group: int) -> int:
    """Of how many heads tiles are computed at the same time: `group` of them walk along the same two tensors."""
    walked_bytes = 2 * rows * x.shape[-1] * x.element_size()
    return min(heads, group * max(1, _SHARED_BYTES // max(1, walked_bytes)))
