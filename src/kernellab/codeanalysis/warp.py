"""Emulates the first warp of a launch on its PTX: the value of each register in 32 lanes, as far as it can be known.

The launch provides sizes and strides; each pointer gets an address of its own. Instructions are executed in the order
of the code for all lanes at once. Of each loop, one iteration is executed. Of a branch, the side that all lanes take is
executed, or both sides if lanes differ or the condition is unknown. A value that depends on memory or on an unsupported
instruction is unknown, and so is every value computed from it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kernellab.codeanalysis.lane_arithmetic import LANES, Lanes, compute, pack, unpack
from kernellab.machinecode.instructions import Instruction, Label, Line, Operand
from kernellab.machinecode.ptx import PtxFunction

_POINTER_DISTANCE = 1 << 44  # between the addresses of two pointers: no tensor is larger
_NO_RESULT = ("st", "bra", "bar", "red")


class Warp:
    """The registers of a warp's 32 lanes. `arguments` are those of the launch in order, None for a pointer."""

    def __init__(self, kernel: PtxFunction, arguments: Sequence[int | None], block: Sequence[int]) -> None:
        self._params: dict[str, int] = {}
        for number, param in enumerate(kernel.params):
            value = arguments[number] if number < len(arguments) else 0
            self._params[param.name] = _POINTER_DISTANCE * (number + 1) if value is None else value
        width, height, _ = block
        threads = range(LANES)
        self._registers: dict[str, Lanes] = {
            "%tid.x": [t % width for t in threads],
            "%tid.y": [t // width % height for t in threads],
            "%tid.z": [t // width // height for t in threads],
            "%laneid": list(threads),
            **{f"%ntid.{dim}": [size] * LANES for dim, size in zip("xyz", block, strict=True)},
            **{f"%{name}.{dim}": [0] * LANES for name in ("ctaid", "clusterid", "cluster_ctaid") for dim in "xyz"},
        }

    def reachable(self, body: Sequence[Line]) -> Iterator[Instruction]:
        """The instructions that at least one lane may reach. The caller executes each before asking for the next."""
        positions = {line.name: i for i, line in enumerate(body) if isinstance(line, Label)}
        loops = {target for i, line in enumerate(body) if (target := _target(line)) and positions.get(target, i) < i}
        indirect = any(isinstance(line, Instruction) and line.base == "brx" for line in body)
        reached: set[str] = set()
        live, decided = True, False
        for at, line in enumerate(body):
            if isinstance(line, Label):
                # A loop may be entered in its middle, by a jump over its beginning.
                live |= indirect or line.name in reached or (line.name in loops and not decided)
            elif isinstance(line, Instruction) and live:
                target = _target(line)
                active = self._active_lanes(line)
                if target and active != [False] * LANES and positions.get(target, -1) > at:
                    reached.add(target)
                # A loop's last branch jumps back. After the last iteration, execution continues behind it.
                ends_loop = line.guard is not None and target and positions.get(target, at + 1) <= at
                if (target or line.base in ("ret", "exit")) and active == [True] * LANES and not ends_loop:
                    live, decided = False, line.guard is not None
                yield line

    def addresses(self, line: Instruction) -> list[int]:
        """The addresses that the active lanes access; empty if they are not known."""
        operands = [operand for operand in line.operands if operand.kind == "address"]
        base = self._registers.get(operands[-1].name) if operands else None
        if base is None:
            return []
        offset = int(operands[-1].value or 0)
        lanes = self._active_lanes(line) or [True] * LANES
        return [address + offset for address, active in zip(base, lanes, strict=True) if active]

    def execute(self, line: Instruction) -> None:
        """Write the instruction's result into its first operand."""
        if not line.operands or line.base in _NO_RESULT:
            return
        target = line.operands[0]
        if target.kind == "vector" and line.base == "mov":
            parts = unpack(line, self._value(line.operands[-1]), len(target.parts))
            for part, result in zip(target.parts, parts, strict=True):
                self._write(line, part.name, result)
        elif target.kind == "pair" and line.base == "setp":
            result = self._result(line)
            self._write(line, target.parts[0].name, result)
            self._write(line, target.parts[-1].name, None if result is None else [1 - value for value in result])
        else:
            result = self._result(line) if target.kind == "register" else None
            for name in target.registers():
                self._write(line, name, result)

    def _active_lanes(self, line: Instruction) -> list[bool] | None:
        """The lanes that execute the instruction; None if its guard is not known."""
        if line.guard is None:
            return [True] * LANES
        predicate = self._registers.get(line.guard.register)
        return None if predicate is None else [bool(value) != line.guard.negated for value in predicate]

    def _write(self, line: Instruction, name: str, result: Lanes) -> None:
        lanes, before = self._active_lanes(line), self._registers.get(name)
        if lanes is None or all(lanes) or result is None:
            self._registers[name] = result
        elif not any(lanes):
            return
        elif before is None:
            self._registers[name] = None
        else:
            merged = zip(result, before, lanes, strict=True)
            self._registers[name] = [new if active else old for new, old, active in merged]

    def _result(self, line: Instruction) -> Lanes:
        if line.base == "ld" and line.has("param"):
            value = self._params.get(line.operands[-1].name)
            # With an offset it is a member of a struct, whose value is not known.
            return None if value is None or line.operands[-1].value else [value] * LANES
        if line.base == "mov" and line.operands[-1].kind == "vector":
            return pack(line, [self._value(part) for part in line.operands[-1].parts])
        if line.base == "mov" and line.operands[-1].kind == "symbol":
            return [0] * LANES  # an array's address: only distances matter, so 0 will do
        return compute(line, [self._value(operand) for operand in line.operands[1:]])

    def _value(self, operand: Operand) -> Lanes:
        if operand.kind == "immediate" and isinstance(operand.value, int):
            return [operand.value] * LANES
        lanes = self._registers.get(operand.name) if operand.kind == "register" else None
        if lanes is not None and operand.text.startswith("!"):
            return [int(not value) for value in lanes]
        return lanes


def _target(line: Line) -> str:
    """The label that a branch jumps to; empty for other lines."""
    return line.operands[-1].name if isinstance(line, Instruction) and line.base == "bra" and line.operands else ""
