"""What stands out in machine code, each as a sentence with its numbers; whether it costs time is not judged."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from kernellab.codeanalysis.double_precision import doubles
from kernellab.codeanalysis.trigonometry import Trigonometry
from kernellab.machinecode.instruction_classes import classify
from kernellab.machinecode.instructions import Instruction

_SLOW = "the slow path of sinf or cosf, which large arguments take"
_LOCAL = ("local_store", "local_load")
_MOST_REGISTERS = 255  # an instruction has eight bits for a register, and the last number stands for zero
# How many fp32 results an SM gives for each fp64 one, by compute capability.
# CUDA C++ Programming Guide, "Throughput of Native Arithmetic Instructions".
_FP32_PER_FP64 = {75: 32, 80: 2, 86: 64, 87: 64, 89: 64, 90: 2, 100: 2, 120: 64, 121: 64}


def remarks(
    arch: str,
    code: Sequence[Instruction],
    mix: dict[str, int],
    spill_bytes: int | None,
    registers: int | None,
    slow: Trigonometry | None,
) -> list[str]:
    """Doubles in a float kernel, local memory, narrow access, opcodes nobody knows.

    `slow` is what the slow path of sinf and cosf has to do with them, None where there is no PTX to tell.
    """
    found = [
        _doubles(arch, code, mix, slow),
        _local(code, mix, _cause(spill_bytes, registers, slow)),
        _narrow(code, mix),
        _unknown(code, mix),
    ]
    return [remark for remark in found if remark]


def _doubles(arch: str, code: Sequence[Instruction], mix: dict[str, int], slow: Trigonometry | None) -> str:
    many, floats = mix.get("fp64", 0), mix.get("fp32", 0) + mix.get("fp16", 0)
    if not many:
        return ""
    whose = doubles(code)
    if whose.in_memory or not (floats or whose.from_floats):
        return ""
    number = re.search(r"\d+", arch)
    ratio = _FP32_PER_FP64.get(int(number.group())) if number else None
    rate = f" {arch} gives one fp64 result in the time of {ratio} in fp32" if ratio else ""
    beside = f"beside {floats} in fp32 or fp16" if floats else "and none in fp32 or fp16, though the data are floats"
    said = f"{_count(many, 'fp64 instruction')} {beside}{_where(code, 'fp64')}"
    if slow is None:
        return f"{said}: a double constant, a cast, or {_SLOW}?{rate}"
    return f"{said}: from {_SLOW}" if slow.doubles else f"{said}: a double constant or a cast?{rate}"


def _local(code: Sequence[Instruction], mix: dict[str, int], cause: str) -> str:
    loads, stores = mix.get("local_load", 0), mix.get("local_store", 0)
    if not loads and not stores:
        return ""
    moved = {kind: sum(c.bytes for line in code if (c := classify(line)).name == kind) for kind in _LOCAL}
    each = [f"{moved[kind]} bytes by {_count(mix.get(kind, 0), 'instruction')}" for kind in _LOCAL]
    return f"local memory: a thread stores {each[0]} and loads {each[1]}{_where(code, *_LOCAL)}: {cause}"


def _cause(spill_bytes: int | None, registers: int | None, slow: Trigonometry | None) -> str:
    array = "an array the registers cannot index: an index known when compiling (a loop unrolled) keeps it in registers"
    if spill_bytes == 0:
        return f"an array of {_SLOW}" if slow and slow.arrays else array
    if spill_bytes is None:
        of_whom = f", of {_SLOW} perhaps" if slow is None or slow.arrays else ""
        return f"registers did not suffice, or an array is indexed at run time{of_whom}"
    if registers is not None and registers >= _MOST_REGISTERS:
        return (
            f"{registers} registers did not suffice, and no thread can have more: "
            "smaller tiles or less unrolling keep fewer values alive"
        )
    return "registers did not suffice"


def _narrow(code: Sequence[Instruction], mix: dict[str, int]) -> str:
    widths = Counter(
        c.bytes
        for line in code
        if (c := classify(line)).name in ("global_load", "global_store", "async_copy") and c.bytes
    )
    if not widths or max(widths) > 4:
        return ""
    many = ", ".join(f"{count} of {width} bytes" for width, count in sorted(widths.items()))
    return (
        f"no global access is wider than {max(widths)} bytes per thread ({many}): "
        "with 16 bytes the same data takes a quarter of the instructions or fewer"
    )


def _unknown(code: Sequence[Instruction], mix: dict[str, int]) -> str:
    if not mix.get("unknown"):
        return ""
    names = sorted({line.base for line in code if classify(line).name == "unknown"})
    many = mix["unknown"]
    return f"{_count(many, 'instruction')} {'is' if many == 1 else 'are'} of no known class: {', '.join(names[:8])}"


def _count(n: int, noun: str) -> str:
    return f"{n} {noun}" + ("" if n == 1 else "s")


def _where(code: Sequence[Instruction], *classes: str) -> str:
    sources = Counter(line.source.name for line in code if line.source and classify(line).name in classes)
    names = [name for name, _ in sources.most_common(2)]
    return f" (mostly {' and '.join(names)})" if names else ""
