"""What could be fused: kernels in a row that move data and compute little, over tensors of the same shape.

A trace knows shapes, not addresses. A kernel follows from the one before when its operator takes a tensor of the shape
and type that one made. Each reads its inputs and writes its result; fused, the chain reads what its first operator
reads, whatever else of other shapes its later ones take, and writes the last result. An input of a later operator that
has the chain's own shape is taken to be made by the chain or read already, so that the fewest bytes are a lower bound.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kernellab.machinecode import kernel_origin as kernelnames
from kernellab.traces.trace import Rows
from kernellab.traceview.places import Place, Places
from kernellab.traceview.row_tree import distinct, take
from kernellab.traceview.view import View

_MEMORY_BOUND = {"elementwise", "reduction", "copy", "softmax", "norm", "random", "PyTorch"}
# Reductions leave less than they read; how much less the trace does not say. They end a chain.
_REDUCES = {"reduction"}
_BYTES = {
    "double": 8, "long int": 8, "long": 8, "c10::complex<float>": 8, "float": 4, "int": 4, "c10::Half": 2,
    "c10::BFloat16": 2, "short": 2, "bool": 1, "unsigned char": 1, "signed char": 1, "c10::complex<double>": 16,
}  # fmt: skip
_LARGE = 16 << 20  # a kernel that moves so much shows the memory's bandwidth, not the launch's


@dataclass(frozen=True)
class Tensor:
    shape: tuple[int, ...]
    item: int

    @property
    def bytes(self) -> int:
        return math.prod(self.shape) * self.item


@dataclass(frozen=True)
class Moves:
    """What an operator's kernel reads and writes, by the shapes it was given."""

    reads: tuple[Tensor, ...]
    writes: Tensor
    last: bool  # nothing is fused behind it

    @property
    def bytes(self) -> int:
        return sum(one.bytes for one in self.reads) + self.writes.bytes


@dataclass(frozen=True)
class Chain:
    """Chains that are alike, of one place in the program; `at` are positions in the view's `gpu`, a row per chain."""

    place: Place
    operators: Sequence[str]
    kernels: Sequence[str]
    shape: tuple[int, ...]
    at: Sequence[Rows]
    moved: int
    fewest: int
    chain_ns: float
    fused_ns: float

    @property
    def gain_ns(self) -> float:
        return max(self.chain_ns - self.fused_ns, 0.0)


def chains(view: View, places: Places, gbps: float | None = None) -> list[Chain]:
    """The dearest first, by GPU time that fusing them would save.

    `gbps` is the memory's bandwidth where known; a GB/s is a byte a nanosecond.
    """
    at, move = _candidates(view)
    if not len(at):
        return []
    known = _moves(view, at)
    runs = _runs(view, at, move, known)
    if not runs:
        return []
    rate = gbps or _bandwidth(view, at, move, known)
    floor = float(view.gpu_ns[at].min())
    groups: dict[tuple[Any, ...], list[tuple[Rows, Place]]] = defaultdict(list)
    kinds: dict[tuple[int, ...], int] = {}
    for run, place in zip(runs, _places(view, places, at[[run[0] for run in runs]]), strict=True):
        same = kinds.setdefault(tuple(move[run].tolist()), len(kinds))
        groups[same, place.file, place.function].append((run, place))
    found = []
    for members in groups.values():
        first, place = members[0]
        moves = [known[n] for n in move[first].tolist()]
        found.append(_chain(view, place, [run for run, _ in members], at, moves, rate, floor))
    return sorted(found, key=lambda one: -one.gain_ns * len(one.at))


def _places(view: View, places: Places, at: Rows) -> list[Place]:
    """The user's line that rows of the GPU ran for: of their forward, where they are of a backward."""
    operator = view.gpu_operators[at]
    home = take(view.forward, operator)
    rows = np.where(home >= 0, take(view.operators.rows, home), take(view.operators.rows, operator))
    return places.of(rows)


def _candidates(view: View) -> tuple[Rows, Rows]:
    """Positions in `gpu`, by stream and time, of all that could be part of a chain or end one; and what each moves."""
    inside = np.flatnonzero(view.gpu_in_steps)
    order = inside[np.lexsort((view.trace.begin[view.gpu[inside]], view.trace.lane[view.gpu[inside]]))]
    _, which = distinct(*_keys(view, order))
    return order, which


def _keys(view: View, at: Rows) -> tuple[Rows, Rows, Rows]:
    operator = view.gpu_operators[at]
    detail = take(view.trace.detail[view.operators.rows], operator)
    return view.trace.name[view.gpu[at]], take(view.operators.name, operator), detail


def _moves(view: View, at: Rows) -> list[Moves | None]:
    """Of each kind of row what it moves; None where it is no candidate."""
    found: list[Moves | None] = []
    names = view.trace.names
    for kernel, operator, detail in distinct(*_keys(view, at))[0]:
        family = kernelnames.family(names[kernel]).name
        fits = family in _MEMORY_BOUND and not names[kernel].startswith(("Memcpy", "Memset"))
        more = view.trace.details[detail] if detail >= 0 else {}
        found.append(_moved(names[operator], more, family) if fits and operator >= 0 else None)
    return found


def _moved(operator: str, more: Any, family: str) -> Moves | None:
    shapes, types = more.get("shapes"), more.get("types")
    if not isinstance(shapes, list) or not isinstance(types, list):
        return None
    reads = []
    for shape, kind in zip(shapes, types, strict=False):
        if kind in _BYTES and isinstance(shape, list) and all(isinstance(n, int) for n in shape):
            reads.append(Tensor(tuple(shape), _BYTES[kind]))
    if not reads or not max(one.bytes for one in reads):
        return None
    if operator.endswith("_"):
        return Moves(tuple(reads[1:] if operator == "aten::copy_" else reads), reads[0], family in _REDUCES)
    widest = max(reads, key=lambda one: one.bytes)
    if family in _REDUCES:
        return Moves(tuple(reads), Tensor((), widest.item), True)
    try:
        shape = np.broadcast_shapes(*(one.shape for one in reads))
    except ValueError:
        shape = widest.shape
    return Moves(tuple(reads), Tensor(tuple(int(n) for n in shape), widest.item), False)


def _runs(view: View, at: Rows, move: Rows, known: Sequence[Moves | None]) -> list[Rows]:
    """Stretches of `at`, two rows or more, in which each follows from the one before."""
    if len(at) < 2:
        return []
    lane = view.trace.lane[view.gpu[at]]
    pairs, which = distinct(move[:-1], move[1:])
    follows = np.array([_follows(known[a], known[b]) for a, b in pairs], dtype=np.bool_)[which]
    # Nobody fuses a forward's end with its backward's begin.
    backward = take(view.in_backward, view.gpu_operators[at]) >= 0
    follows &= (lane[:-1] == lane[1:]) & (backward[:-1] == backward[1:])
    edges = np.flatnonzero(np.diff(np.concatenate([[0], follows.astype(np.int64), [0]])))
    return [np.arange(first, past + 1) for first, past in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True)]


def _follows(one: Moves | None, other: Moves | None) -> bool:
    if one is None or other is None or one.last:
        return False
    made = one.writes
    return made.bytes > 0 and any(read == made for read in (*other.reads, other.writes))


def _bandwidth(view: View, at: Rows, move: Rows, known: Sequence[Moves | None]) -> float | None:
    """Bytes a nanosecond of the best large one: what this memory gives to kernels of this sort."""
    best = None
    size = np.array([0 if one is None else one.bytes for one in known], dtype=np.int64)[move]
    large = size >= _LARGE
    if large.any():
        best = float((size[large] / np.maximum(view.gpu_ns[at[large]], 1)).max())
    return best


def _chain(
    view: View,
    place: Place,
    members: Sequence[Rows],
    at: Rows,
    moves: Sequence[Moves | None],
    rate: float | None,
    floor: float,
) -> Chain:
    steps = [one for one in moves if one is not None]
    moved = sum(one.bytes for one in steps)
    own = {steps[0].writes, *steps[0].reads}
    others = {read for one in steps[1:] for read in one.reads} - own - {one.writes for one in steps}
    fewest = sum(one.bytes for one in steps[0].reads) + sum(one.bytes for one in others) + steps[-1].writes.bytes
    each = view.gpu_ns[at[np.stack(members)]]
    chain_ns = float(each.sum(axis=1).mean())
    first = at[members[0]]
    return Chain(
        place=place,
        operators=[view.trace.names[name] for name in view.operators.name[view.gpu_operators[first]].tolist()],
        kernels=[view.trace.name_of(int(row)) for row in view.gpu[first]],
        shape=steps[0].writes.shape,
        at=[at[one] for one in members],
        moved=moved,
        fewest=fewest,
        chain_ns=chain_ns,
        # At the memory's bandwidth, or at the chain's own where none is known; never below the shortest kernel seen.
        fused_ns=min(max(fewest / rate if rate else chain_ns * fewest / moved, floor), chain_ns),
    )


def document(found: Sequence[Chain], steps: int) -> list[dict[str, Any]]:
    return [
        {
            "file": one.place.file,
            "line": one.place.line,
            "function": one.place.function,
            "operators": list(one.operators),
            "kernels": list(one.kernels),
            "shape": list(one.shape),
            "count": len(one.at),
            "per_step": round(len(one.at) / steps, 3),
            "moved_bytes": one.moved,
            "fewest_bytes": one.fewest,
            "chain_us": round(one.chain_ns / 1e3, 3),
            "fused_us": round(one.fused_ns / 1e3, 3),
            "gain_us": round(one.gain_ns * len(one.at) / steps / 1e3, 3),
        }
        for one in found
    ]
