"""What a kernel's registers and parameters hold, found in one pass over its code: pointers, parameters, indices.

In PTX from compilers, most registers are set once. Nothing is said about a register that is set twice.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from kernellab.machinecode.instructions import Instruction, instructions
from kernellab.machinecode.ptx import PtxFunction

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
class KernelContext:
    """What is known about a kernel when one of its lines is explained."""

    contents: dict[str, str] = field(default_factory=dict)  # what a register holds: "pointer 0", "block index x"
    pointers: set[str] = field(default_factory=set)  # the parameters that are addresses
    positions: dict[str, int] = field(default_factory=dict)  # the number of each parameter, from 0
    read: set[str] = field(default_factory=set)  # the parameters that the code reads


def result_registers(line: Instruction) -> list[str]:
    """The registers that an instruction sets: those of its first operand, with few exceptions."""
    if not line.operands or line.base in _NO_RESULT or line.operands[0].kind in ("address", "immediate"):
        return []
    return list(line.operands[0].registers())


def input_registers(line: Instruction) -> list[str]:
    """The registers that an instruction reads, without its guard."""
    rest = line.operands[1:] if result_registers(line) else line.operands
    return [name for operand in rest for name in operand.registers()]


def build_context(kernel: PtxFunction) -> KernelContext:
    code = instructions(kernel.body)
    context = KernelContext(positions={param.name: i for i, param in enumerate(kernel.params)})
    context.pointers = {param.name for param in kernel.params if param.pointer} | _find_pointers(kernel, code)
    context.read = {operand.name for line in code for operand in line.operands} & set(context.positions)
    times_set = Counter(name for line in code for name in result_registers(line))
    for line in code:
        content = _describe_content(line, context)
        for name in result_registers(line) if content else ():
            if times_set[name] == 1:
                context.contents[name] = content
    return context


def _describe_content(line: Instruction, context: KernelContext) -> str:
    """What the instruction's result is; empty if it has no name here."""
    if len(line.operands) != 2 or line.guard is not None:
        return ""
    source = line.operands[1]
    if line.base == "ld" and line.has("param") and source.name in context.positions and not source.value:
        kind = "pointer" if source.name in context.pointers else "parameter"
        return f"{kind} {context.positions[source.name]}"
    if line.base == "cvta" or (line.base == "mov" and source.kind == "register"):
        return context.contents.get(source.name, "") or _INDEX.get(source.name, "")
    return ""


def _find_pointers(kernel: PtxFunction, code: list[Instruction]) -> set[str]:
    """64-bit parameters that reach an address only through copies, choices, address conversions and additions.

    An index is scaled before it is used in an address, by a shift or a multiplication. A pointer is not, but a scaled
    index may be added to it.
    """
    wide = {param.name for param in kernel.params if param.type in ("u64", "b64", "s64")}
    carries: dict[str, set[str]] = {}  # by register: the parameters of which it holds one, with an offset perhaps
    pointers: set[str] = set()
    for line in code:
        if line.base == "ld" and line.has("param") and len(line.operands) == 2 and line.operands[1].name in wide:
            for name in result_registers(line):
                carries[name] = {line.operands[1].name}
        elif line.base == "mad" and line.has("wide", "s64", "u64"):
            for name in result_registers(line):
                carries[name] = carries.get(line.operands[-1].name, set())
        elif line.base in ("cvta", "mov", "add", "selp") and not line.has("f32", "f64", "s32", "u32"):
            carried = [carries[name] for name in input_registers(line) if carries.get(name)]
            if line.base == "cvta":
                pointers |= set().union(*carried)
            for name in result_registers(line):
                # A sum of two parameters is a pointer plus an offset in bytes: it is not known which is the pointer.
                known = line.base == "selp" or len(carried) == 1
                carries[name] = set().union(*carried) if known else set()
        for operand in line.operands:
            if operand.kind == "address" and not line.has("param"):
                pointers |= carries.get(operand.name, set())
    return pointers
