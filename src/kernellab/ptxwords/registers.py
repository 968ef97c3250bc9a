"""What is known of a kernel's registers and parameters after reading it once: what they hold, which are pointers.

PTX as compilers write it sets most registers once; of a register set twice nothing is claimed.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from kernellab.machinecode.instructions import Instruction, instructions
from kernellab.machinecode.ptx import Entry

_NO_RESULT = frozenset(
    ("st", "red", "bra", "brx", "ret", "exit", "trap", "bar", "barrier", "fence", "membar", "cp", "stmatrix")
)
_INDEX = {
    "%tid.x": "thread index x",
    "%tid.y": "thread index y",
    "%tid.z": "thread index z",
    "%ctaid.x": "block index x",
    "%ctaid.y": "block index y",
    "%ctaid.z": "block index z",
    "%ntid.x": "threads per block, x",
    "%ntid.y": "threads per block, y",
    "%nctaid.x": "blocks in the grid, x",
    "%nctaid.y": "blocks in the grid, y",
    "%cluster_ctarank": "rank in the cluster",
    "%cluster_nctarank": "blocks in the cluster",
    "%laneid": "thread index in the warp",
}


@dataclass
class Known:
    """`holds` is what single registers hold, in a few words; `pointers` are the parameters that are addresses."""

    holds: dict[str, str] = field(default_factory=dict)
    pointers: set[str] = field(default_factory=set)
    order: dict[str, int] = field(default_factory=dict)  # of the parameters
    read: set[str] = field(default_factory=set)  # parameters that are


def results(line: Instruction) -> list[str]:
    """Registers an instruction sets: its first operand, with few exceptions."""
    if not line.operands or line.base in _NO_RESULT or line.operands[0].kind in ("address", "immediate"):
        return []
    return list(line.operands[0].registers())


def inputs(line: Instruction) -> list[str]:
    """Registers an instruction reads, its guard apart."""
    rest = line.operands[1:] if results(line) else line.operands
    return [name for operand in rest for name in operand.registers()]


def know(entry: Entry) -> Known:
    code = instructions(entry.body)
    known = Known(order={param.name: i for i, param in enumerate(entry.params)})
    known.pointers = {param.name for param in entry.params if param.pointer} | _pointers(entry, code)
    known.read = {operand.name for line in code for operand in line.operands} & set(known.order)
    times_set = Counter(name for line in code for name in results(line))
    for line in code:
        held = _held(line, known)
        for name in results(line) if held else ():
            if times_set[name] == 1:
                known.holds[name] = held
    return known


def _held(line: Instruction, known: Known) -> str:
    if len(line.operands) != 2 or line.guard is not None:
        return ""
    source = line.operands[1]
    if line.base == "ld" and line.has("param") and source.name in known.order and not source.value:
        kind = "pointer" if source.name in known.pointers else "parameter"
        return f"{kind} {known.order[source.name]}"
    if line.base == "cvta" or (line.base == "mov" and source.kind == "register"):
        return known.holds.get(source.name, "") or _INDEX.get(source.name, "")
    return ""


def _pointers(entry: Entry, code: list[Instruction]) -> set[str]:
    """64-bit parameters that reach an address by copies, conversions of address and additions alone.

    An index is scaled on its way, by a shift or a multiplication; a pointer never is, though it may be added to one.
    """
    wide = {param.name for param in entry.params if param.type in ("u64", "b64", "s64")}
    carries: dict[str, set[str]] = {}
    found: set[str] = set()
    for line in code:
        if line.base == "ld" and line.has("param") and len(line.operands) == 2 and line.operands[1].name in wide:
            for name in results(line):
                carries[name] = {line.operands[1].name}
        elif line.base == "mad" and line.has("wide", "s64", "u64"):
            for name in results(line):
                carries[name] = carries.get(line.operands[-1].name, set())
        elif line.base in ("cvta", "mov", "add") and not line.has("f32", "f64", "s32", "u32"):
            carried: set[str] = set().union(*(carries.get(name, ()) for name in inputs(line)))
            if line.base == "cvta":
                found |= carried
            for name in results(line):
                # A sum of two parameters is a pointer and an offset in bytes: which is which is not known.
                carries[name] = carried if len(carried) == 1 else set()
        for operand in line.operands:
            if operand.kind == "address" and not line.has("param"):
                found |= carries.get(operand.name, set())
    return found
