"""The stages of a kernel. The use of an instruction's result determines its stage."""

from __future__ import annotations

from kernellab.machinecode.instruction_classes import classify
from kernellab.machinecode.instructions import Instruction
from kernellab.ptxwords.phrases import SPECIAL
from kernellab.ptxwords.registers import input_registers, result_registers

STAGES = {
    "entry": "entry and parameters",
    "library": "constants of CUDA's headers",
    "registers": "registers",
    "index": "thread and block index",
    "addresses": "addresses",
    "loads": "loads",
    "arithmetic": "arithmetic",
    "stores": "stores",
    "control": "control",
}
# Classes that compute addresses and loop counters. Following a value backwards stops at any other class.
_INTEGERS = {"integer", "movement", "conversion", "constant_load"}
_BETWEEN_THREADS = {"shfl", "vote", "redux", "match", "elect"}


def find_stages(code: list[Instruction]) -> list[str]:
    """The stage of each instruction, a key of `STAGES`."""
    set_by: dict[str, list[int]] = {}
    for i, line in enumerate(code):
        for name in result_registers(line):
            set_by.setdefault(name, []).append(i)
    addressed = [name for line in code for o in line.operands if o.kind == "address" for name in o.registers()]
    compared = [name for line in code if line.base == "setp" for name in input_registers(line)]
    for_addresses, for_tests = (_find_producers(names, code, set_by) for names in (addressed, compared))
    loaded = {name for line in code if _is_load(line) for name in result_registers(line)}
    stages = []
    for i, line in enumerate(code):
        stage = _stage_of_opcode(line)
        if stage == "arithmetic" and line.base not in _BETWEEN_THREADS:
            if line.base == "mov" and not loaded.isdisjoint(result_registers(line)):
                stage = "loads"  # the value for lanes in which the load is masked out
            elif i in for_addresses:
                stage = "addresses"
            elif i in for_tests and classify(line).name != "movement":
                stage = "control"
        stages.append(stage)
    return stages


def _stage_of_opcode(line: Instruction) -> str:
    kind = classify(line).name
    if line.base == "ld" and line.has("param", "param::entry"):
        return "entry"
    if line.base == "mov" and any(operand.name in SPECIAL for operand in line.operands[1:]):
        return "index"
    if kind.endswith("_store") or kind.endswith("_atomic"):
        return "stores"
    if kind.endswith("_load"):
        return "loads"
    if line.base == "tensormap":
        return "addresses"
    if kind in ("async_copy", "bulk_copy"):
        return "stores" if _writes_global(line) else "loads"
    if kind in ("control", "synchronisation") or line.base in ("setp", "elect") or line.has("pred"):
        return "control"
    return "arithmetic"


def _writes_global(line: Instruction) -> bool:
    spaces = [m for m in line.modifiers if m == "global" or m.startswith("shared")]
    return bool(spaces) and spaces[0] == "global"


def _is_load(line: Instruction) -> bool:
    return line.base == "ld" and not line.has("param", "param::entry")


def _find_producers(names: list[str], code: list[Instruction], set_by: dict[str, list[int]]) -> set[int]:
    """The integer instructions that compute these registers, directly or through other integers."""
    seen, producers = set(names), set()
    todo = list(seen)
    while todo:
        for i in set_by.get(todo.pop(), ()):
            if classify(code[i]).name not in _INTEGERS:
                continue
            producers.add(i)
            for name in input_registers(code[i]):
                if name not in seen:
                    seen.add(name)
                    todo.append(name)
    return producers
