"""The stages of a kernel, and which one each instruction of PTX belongs to, by what its result is used for."""

from __future__ import annotations

from kernellab.machinecode.instruction_classes import classify
from kernellab.machinecode.instructions import Instruction
from kernellab.ptxwords.phrases import SPECIAL
from kernellab.ptxwords.registers import inputs, results

STAGES = {
    "entry": "entry and parameters",
    "library": "constants of CUDA's own headers",
    "registers": "registers",
    "index": "thread and block index",
    "addresses": "addresses",
    "loads": "predicated loads",
    "arithmetic": "arithmetic",
    "stores": "stores",
    "control": "control",
}
# What addresses and loop counters are made with: following a value through anything else ends the search.
_INTEGERS = {"integer", "movement", "conversion", "constant_load"}
_BETWEEN_THREADS = {"shfl", "vote", "redux", "match", "elect"}


def stages(code: list[Instruction]) -> list[str]:
    """The stage of each instruction."""
    set_by: dict[str, list[int]] = {}
    for i, line in enumerate(code):
        for name in results(line):
            set_by.setdefault(name, []).append(i)
    addressed = [name for line in code for o in line.operands if o.kind == "address" for name in o.registers()]
    compared = [name for line in code if line.base == "setp" for name in inputs(line)]
    for_addresses, for_tests = (_leading_to(names, code, set_by) for names in (addressed, compared))
    loaded = {name for line in code if _is_load(line) for name in results(line)}
    found = []
    for i, line in enumerate(code):
        stage = _stage(line)
        if stage == "arithmetic" and line.base not in _BETWEEN_THREADS:
            if line.base == "mov" and not loaded.isdisjoint(results(line)):
                stage = "loads"  # what the register holds where the load is not carried out
            elif i in for_addresses:
                stage = "addresses"
            elif i in for_tests and classify(line).name != "movement":
                stage = "control"
        found.append(stage)
    return found


def _stage(line: Instruction) -> str:
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


def _leading_to(names: list[str], code: list[Instruction], set_by: dict[str, list[int]]) -> set[int]:
    """Instructions whose result ends up in one of these registers by way of integers alone, found backwards."""
    seen, found = set(names), set()
    todo = list(seen)
    while todo:
        for i in set_by.get(todo.pop(), ()):
            if classify(code[i]).name not in _INTEGERS:
                continue
            found.add(i)
            for name in inputs(code[i]):
                if name not in seen:
                    seen.add(name)
                    todo.append(name)
    return found
