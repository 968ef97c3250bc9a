"""Whether a warp's accesses are coalesced: the first warp's addresses, worked out by doing the PTX's arithmetic.

Sizes and strides come with the launch, pointers are given addresses of their own, and every instruction is done in the
order it stands in, for 32 lanes at once: one turn of each loop, and of each branch the side that all lanes take, or
both where they differ or it is not known. A value that depends on memory or on an instruction not known here is
unknown, and so is everything made from it. Accesses whose addresses are unknown do not count; where none is known there
is no answer.

Several instructions may take parts of one sector. Stores find each other again in L2. Loads do so in L1, as long as
what a warp touches stays there: where that is more than its share of L1, each load fetches its sectors anew.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kernellab.machinecode.classes import classify
from kernellab.machinecode.instructions import Instruction, Label, Line, Operand
from kernellab.machinecode.lane_arithmetic import LANES, Lanes, computed, packed, unpacked
from kernellab.machinecode.ptx import Entry

SECTOR_BYTES = 32
_APART = 1 << 44  # between the addresses pointers are given: no tensor reaches from one to the next
_FEWEST_LANES = 16  # that must differ: a value all lanes share is one sector, and nobody's fault
_LOADS = ("global_load", "async_copy")
_NO_RESULT = ("st", "bra", "bar", "red")


def spread(
    entry: Entry, values: Sequence[int | None], block: Sequence[int], l1_share_bytes: float | None = None
) -> float | None:
    """Sectors the first warp's loads and stores touch, over the fewest that would hold what they move; 1 is coalesced.

    `values` are the launch's arguments in order, None for a pointer. `l1_share_bytes` is what a warp has of L1 when all
    that fit on an SM are there; None takes L1 to hold everything.
    """
    loads: list[tuple[set[int], set[int]]] = []
    stores: list[tuple[set[int], set[int]]] = []
    lanes = _Lanes(entry, values, block)
    for line in lanes.followed(entry.body):
        kind = classify(line)
        if kind.name in (*_LOADS, "global_store") and kind.bytes:
            starts = set(lanes.address(line))
            if len(starts) >= _FEWEST_LANES:
                (loads if kind.name in _LOADS else stores).append(_touched(starts, kind.bytes))
        lanes.do(line)
    read = set().union(*(sectors for sectors, _ in loads))
    stays = l1_share_bytes is None or len(read) * SECTOR_BYTES <= l1_share_bytes
    groups = [*([_together(loads)] if stays else loads), _together(stores)]
    moved = sum(len(bytes_moved) for _, bytes_moved in groups)
    return sum(len(sectors) for sectors, _ in groups) * SECTOR_BYTES / moved if moved else None


def _touched(starts: set[int], size_bytes: int) -> tuple[set[int], set[int]]:
    """The sectors of one instruction, and its bytes."""
    moved = {at for start in starts for at in range(start, start + size_bytes)}
    return {at // SECTOR_BYTES for at in moved}, moved


def _together(each: list[tuple[set[int], set[int]]]) -> tuple[set[int], set[int]]:
    return set().union(*(sectors for sectors, _ in each)), set().union(*(moved for _, moved in each))


class _Lanes:
    """The registers of 32 lanes."""

    def __init__(self, entry: Entry, values: Sequence[int | None], block: Sequence[int]) -> None:
        self._at: dict[str, Lanes] = {}
        self._params: dict[str, int] = {}
        for number, param in enumerate(entry.params):
            known = values[number] if number < len(values) else 0
            self._params[param.name] = _APART * (number + 1) if known is None else known
        wide, high, _ = block
        threads = range(LANES)
        self._at |= {
            "%tid.x": [t % wide for t in threads],
            "%tid.y": [t // wide % high for t in threads],
            "%tid.z": [t // wide // high for t in threads],
            "%laneid": list(threads),
            **{f"%ntid.{dim}": [size] * LANES for dim, size in zip("xyz", block, strict=True)},
            **{f"%{name}.{dim}": [0] * LANES for name in ("ctaid", "clusterid", "cluster_ctaid") for dim in "xyz"},
        }

    def followed(self, body: Sequence[Line]) -> Iterator[Instruction]:
        """The instructions that are reached: all but those every known branch leads past."""
        places = {line.name: at for at, line in enumerate(body) if isinstance(line, Label)}
        loops = {aim for at, line in enumerate(body) if (aim := _aim(line)) and places.get(aim, at) < at}
        everywhere = any(isinstance(line, Instruction) and line.base == "brx" for line in body)
        reached: set[str] = set()
        live, decided = True, False
        for at, line in enumerate(body):
            if isinstance(line, Label):
                # A loop may be entered in its middle, by a jump over its beginning.
                live |= everywhere or line.name in reached or (line.name in loops and not decided)
            elif isinstance(line, Instruction) and live:
                aim = _aim(line)
                takes = self._takes(line)
                if aim and takes != [False] * LANES and places.get(aim, -1) > at:
                    reached.add(aim)
                if (aim or line.base in ("ret", "exit")) and takes == [True] * LANES:
                    live, decided = False, line.guard is not None
                yield line

    def _takes(self, line: Instruction) -> list[bool] | None:
        """In which lanes the instruction takes effect."""
        if line.guard is None:
            return [True] * LANES
        known = self._at.get(line.guard.register)
        return None if known is None else [bool(value) != line.guard.negated for value in known]

    def address(self, line: Instruction) -> list[int]:
        """Of the lanes that take part; none where it is not known."""
        where = [operand for operand in line.operands if operand.kind == "address"]
        base = self._at.get(where[-1].name) if where else None
        offset = int(where[-1].value or 0) if where else 0
        takes = self._takes(line) or [True] * LANES
        return [a + offset for a, there in zip(base, takes, strict=True) if there] if base is not None else []

    def do(self, line: Instruction) -> None:
        """What the instruction leaves in its first operand."""
        if not line.operands or line.base in _NO_RESULT:
            return
        target = line.operands[0]
        if target.kind == "vector" and line.base == "mov":
            parts = unpacked(line, self._value(line.operands[-1]), len(target.parts))
            for part, found in zip(target.parts, parts, strict=True):
                self._put(line, part.name, found)
        elif target.kind == "pair" and line.base == "setp":
            found = self._result(line)
            self._put(line, target.parts[0].name, found)
            self._put(line, target.parts[-1].name, None if found is None else [1 - value for value in found])
        else:
            found = self._result(line) if target.kind == "register" else None
            for name in target.registers():
                self._put(line, name, found)

    def _put(self, line: Instruction, name: str, found: Lanes) -> None:
        takes, before = self._takes(line), self._at.get(name)
        if takes is None or all(takes) or found is None:
            self._at[name] = found
        elif not any(takes):
            return
        elif before is None:
            self._at[name] = None
        else:
            self._at[name] = [new if there else old for new, old, there in zip(found, before, takes, strict=True)]

    def _result(self, line: Instruction) -> Lanes:
        if line.base == "ld" and line.has("param"):
            known = self._params.get(line.operands[-1].name)
            return None if known is None or line.operands[-1].value else [known] * LANES  # a part of a struct is not
        if line.base == "mov" and line.operands[-1].kind == "vector":
            return packed(line, [self._value(part) for part in line.operands[-1].parts])
        return computed(line, [self._value(operand) for operand in line.operands[1:]])

    def _value(self, operand: Operand) -> Lanes:
        if operand.kind == "immediate" and isinstance(operand.value, int):
            return [operand.value] * LANES
        known = self._at.get(operand.name) if operand.kind == "register" else None
        if known is not None and operand.text.startswith("!"):
            return [int(not value) for value in known]
        return known


def _aim(line: Line) -> str:
    """The label a branch leads to."""
    return line.operands[-1].name if isinstance(line, Instruction) and line.base == "bra" and line.operands else ""
