"""What could be fused: consecutive kernels that move data and compute little, over tensors of the same shape.

A trace contains shapes, not addresses. A kernel follows from the previous one if its operator takes a tensor of the
shape and type that the previous one wrote. Each kernel reads its inputs and writes its result. Fused, the chain reads
the inputs of its first operator and the differently shaped inputs of later ones, and writes the last result. An input
of a later operator with the chain's own shape is assumed to be made or already read by the chain, so the fewest bytes
are a lower bound.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypedDict

import numpy as np

from kernellab.findings.place import Place
from kernellab.machinecode import kernel_origin
from kernellab.traces.row_details import RowDetails
from kernellab.traces.trace import Rows
from kernellab.traceview.places import Places
from kernellab.traceview.row_tree import distinct, take
from kernellab.traceview.view import View

_MEMORY_BOUND = {"elementwise", "reduction", "copy", "softmax", "norm", "random", "PyTorch"}
# A reduction writes less than it reads; the trace does not say how much less. It ends a chain.
_REDUCTIONS = {"reduction"}
_ITEM_BYTES = {
    "double": 8, "long int": 8, "long": 8, "c10::complex<float>": 8, "float": 4, "int": 4, "c10::Half": 2,
    "c10::BFloat16": 2, "short": 2, "bool": 1, "unsigned char": 1, "signed char": 1, "c10::complex<double>": 16,
}  # fmt: skip
_LARGE = 16 << 20  # bytes: a kernel that moves this much shows the memory's bandwidth, not its launch latency


class ChainDocument(TypedDict):
    file: str | None
    line: int | None
    function: str | None
    operators: list[str]
    kernels: list[str]
    shape: list[int]
    count: int
    per_step: float
    moved_bytes: int
    fewest_bytes: int
    chain_us: float
    fused_us: float
    gain_us: float


@dataclass(frozen=True)
class Tensor:
    shape: tuple[int, ...]
    item_bytes: int

    @property
    def bytes(self) -> int:
        return math.prod(self.shape) * self.item_bytes


@dataclass(frozen=True)
class Traffic:
    """What an operator's kernel reads and writes, by the shapes of its inputs."""

    reads: tuple[Tensor, ...]
    writes: Tensor
    ends_chain: bool

    @property
    def bytes(self) -> int:
        return sum(tensor.bytes for tensor in self.reads) + self.writes.bytes


@dataclass(frozen=True)
class Chain:
    """All chains of the same kernels from one place of the program."""

    place: Place
    operators: Sequence[str]
    kernels: Sequence[str]
    shape: tuple[int, ...]
    at: Sequence[Rows]  # one entry per chain: its kernels as positions in the view's GPU rows
    moved_bytes: int
    fewest_bytes: int
    chain_ns: float
    fused_ns: float

    @property
    def gain_ns(self) -> float:
        return max(self.chain_ns - self.fused_ns, 0.0)


def find_chains(view: View, places: Places, gbps: float | None = None) -> list[Chain]:
    """The chains, ordered by the GPU time that fusing them would save.

    `gbps` is the memory's bandwidth if known; one GB/s is one byte per nanosecond.
    """
    at = _in_stream_order(view)
    if not len(at):
        return []
    kinds, kind = distinct(*_keys(view, at))
    traffic = [_traffic(view, *key) for key in kinds]
    runs = _find_runs(view, at, kind, traffic)
    if not runs:
        return []
    bandwidth = gbps or _bandwidth(view, at, kind, traffic)
    shortest_ns = float(view.gpu_ns[at].min())
    groups: dict[tuple[tuple[int, ...], str | None, str | None], list[tuple[Rows, Place]]] = defaultdict(list)
    for run, place in zip(runs, _places(view, places, at[[run[0] for run in runs]]), strict=True):
        groups[tuple(kind[run].tolist()), place.file, place.function].append((run, place))
    chains = []
    for members in groups.values():
        first, place = members[0]
        kernels = [moved for number in kind[first].tolist() if (moved := traffic[number]) is not None]
        chains.append(_chain(view, place, [at[run] for run, _ in members], kernels, bandwidth, shortest_ns))
    return sorted(chains, key=lambda chain: -chain.gain_ns * len(chain.at))


def _places(view: View, places: Places, at: Rows) -> list[Place]:
    """The user's line that GPU rows ran for; for backward, the line of its forward operator."""
    operator = view.gpu_operators[at]
    forward = take(view.forward_operator, operator)
    return places.locate_rows(take(view.operators.rows, np.where(forward >= 0, forward, operator)))


def _in_stream_order(view: View) -> Rows:
    """The GPU rows of the steps, as positions, by stream and time."""
    inside = np.flatnonzero(view.gpu_in_steps)
    rows = view.gpu_rows[inside]
    return inside[np.lexsort((view.trace.begin[rows], view.trace.lane[rows]))]


def _keys(view: View, at: Rows) -> tuple[Rows, Rows, Rows]:
    """Kernel name, operator name and operator details: rows with the same keys move the same bytes."""
    operator = view.gpu_operators[at]
    detail = take(view.trace.detail[view.operators.rows], operator)
    return view.trace.name[view.gpu_rows[at]], take(view.operators.name, operator), detail


def _traffic(view: View, kernel: int, operator: int, detail: int) -> Traffic | None:
    """None for a kernel that cannot be part of a chain."""
    name = view.trace.names[kernel]
    family = kernel_origin.find_family(name).name
    if family not in _MEMORY_BOUND or name.startswith(("Memcpy", "Memset")) or operator < 0 or detail < 0:
        return None
    return _operator_traffic(view.trace.names[operator], view.trace.details[detail], family in _REDUCTIONS)


def _operator_traffic(operator: str, details: RowDetails, reduces: bool) -> Traffic | None:
    shapes, types = details.get("shapes"), details.get("types")
    if not isinstance(shapes, list) or not isinstance(types, list):
        return None
    reads = []
    for shape, dtype in zip(shapes, types, strict=False):
        sizes = tuple(size for size in shape if isinstance(size, int)) if isinstance(shape, list) else None
        if isinstance(dtype, str) and dtype in _ITEM_BYTES and sizes is not None and len(sizes) == len(shape):
            reads.append(Tensor(sizes, _ITEM_BYTES[dtype]))
    if not reads or not max(tensor.bytes for tensor in reads):
        return None
    if operator.endswith("_"):
        return Traffic(tuple(reads[1:] if operator == "aten::copy_" else reads), reads[0], reduces)
    widest = max(reads, key=lambda tensor: tensor.bytes)
    if reduces:
        return Traffic(tuple(reads), Tensor((), widest.item_bytes), True)
    try:
        result = tuple(int(size) for size in np.broadcast_shapes(*(tensor.shape for tensor in reads)))
    except ValueError:
        result = widest.shape
    return Traffic(tuple(reads), Tensor(result, widest.item_bytes), False)


def _find_runs(view: View, at: Rows, kind: Rows, traffic: Sequence[Traffic | None]) -> list[Rows]:
    """Runs of two or more consecutive entries of `at` in which each follows from the previous one."""
    if len(at) < 2:
        return []
    lane = view.trace.lane[view.gpu_rows[at]]
    pairs, which = distinct(kind[:-1], kind[1:])
    follows = np.array([_follows(traffic[a], traffic[b]) for a, b in pairs], dtype=np.bool_)[which]
    # The end of a forward is never fused with the begin of its backward.
    backward = take(view.backward_node, view.gpu_operators[at]) >= 0
    follows &= (lane[:-1] == lane[1:]) & (backward[:-1] == backward[1:])
    edges = np.flatnonzero(np.diff(np.concatenate([[0], follows.astype(np.int64), [0]])))
    return [np.arange(first, past + 1) for first, past in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True)]


def _follows(earlier: Traffic | None, later: Traffic | None) -> bool:
    if earlier is None or later is None or earlier.ends_chain:
        return False
    result = earlier.writes
    return result.bytes > 0 and result in (*later.reads, later.writes)


def _bandwidth(view: View, at: Rows, kind: Rows, traffic: Sequence[Traffic | None]) -> float | None:
    """Bytes per nanosecond of the fastest large kernel; None if there is no large one."""
    size = np.array([0 if moved is None else moved.bytes for moved in traffic], dtype=np.int64)[kind]
    large = size >= _LARGE
    if not large.any():
        return None
    return float((size[large] / np.maximum(view.gpu_ns[at[large]], 1)).max())


def _chain(
    view: View,
    place: Place,
    members: Sequence[Rows],
    kernels: Sequence[Traffic],
    bandwidth: float | None,
    shortest_ns: float,
) -> Chain:
    first, *later = kernels
    moved = sum(kernel.bytes for kernel in kernels)
    inputs = {tensor for kernel in later for tensor in kernel.reads}
    inputs -= {first.writes, *first.reads, *(kernel.writes for kernel in kernels)}
    fewest = sum(tensor.bytes for tensor in (*first.reads, *inputs)) + kernels[-1].writes.bytes
    chain_ns = float(view.gpu_ns[np.stack(members)].sum(axis=1).mean())
    # At the memory's bandwidth, or at the chain's own if none is known.
    fused_ns = fewest / bandwidth if bandwidth else chain_ns * fewest / moved
    example = members[0]
    return Chain(
        place=place,
        operators=[view.trace.names[name] for name in view.operators.name[view.gpu_operators[example]].tolist()],
        kernels=[view.trace.name_of(int(row)) for row in view.gpu_rows[example]],
        shape=first.writes.shape,
        at=members,
        moved_bytes=moved,
        fewest_bytes=fewest,
        chain_ns=chain_ns,
        fused_ns=min(max(fused_ns, shortest_ns), chain_ns),
    )


def document(chains: Sequence[Chain], steps: int) -> list[ChainDocument]:
    return [
        {
            "file": chain.place.file,
            "line": chain.place.line,
            "function": chain.place.function,
            "operators": list(chain.operators),
            "kernels": list(chain.kernels),
            "shape": list(chain.shape),
            "count": len(chain.at),
            "per_step": round(len(chain.at) / steps, 3),
            "moved_bytes": chain.moved_bytes,
            "fewest_bytes": chain.fewest_bytes,
            "chain_us": round(chain.chain_ns / 1e3, 3),
            "fused_us": round(chain.fused_ns / 1e3, 3),
            "gain_us": round(chain.gain_ns * len(chain.at) / steps / 1e3, 3),
        }
        for chain in chains
    ]
