"""The first warp of a launch, followed through its PTX: what each lane's registers hold, as far as that can be known.

Sizes and strides come with the launch, pointers are given addresses of their own, and every instruction is done in the
order it stands in, for 32 lanes at once: one turn of each loop, and of each branch the side that all lanes take, or
both where they differ or it is not known. A value that depends on memory or on an instruction not known here is
unknown, and so is everything made from it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kernellab.codeanalysis.lane_arithmetic import LANES, Lanes, computed, packed, unpacked
from kernellab.machinecode.instructions import Instruction, Label, Line, Operand
from kernellab.machinecode.ptx import Entry

_APART = 1 << 44  # between the addresses pointers are given: no tensor reaches from one to the next
_NO_RESULT = ("st", "bra", "bar", "red")


class Warp:
    """What the registers of its 32 lanes hold."""

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
                # A loop's last line leads back in one turn, and on in the last.
                turns = line.guard is not None and aim and places.get(aim, at + 1) <= at
                if (aim or line.base in ("ret", "exit")) and takes == [True] * LANES and not turns:
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
        if line.base == "mov" and line.operands[-1].kind == "symbol":
            return [0] * LANES  # an array begins somewhere: at 0, as good as anywhere
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
