"""Remarks: sentences about unusual properties of machine code, with numbers. They do not judge what costs time."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from kernellab.codeanalysis.double_precision import find_doubles
from kernellab.codeanalysis.trigonometry import SlowPathUse
from kernellab.machinecode.instruction_classes import classify
from kernellab.machinecode.instructions import Instruction

_SLOW_PATH = "the slow path of sinf or cosf for large arguments"
_LOCAL = ("local_store", "local_load")
_MAX_REGISTERS = 255  # an instruction has eight bits for a register's number, and the last number stands for zero
# fp32 results that an SM computes in the time of one fp64 result, by compute capability.
# CUDA C++ Programming Guide, "Throughput of Native Arithmetic Instructions".
_FP32_PER_FP64 = {75: 32, 80: 2, 86: 64, 87: 64, 89: 64, 90: 2, 100: 2, 120: 64, 121: 64}


def write_remarks(
    arch: str,
    code: Sequence[Instruction],
    mix: dict[str, int],
    spill_bytes: int | None,
    registers: int | None,
    slow_path: SlowPathUse | None,
) -> list[str]:
    """Remarks on double precision in a float kernel, local memory, narrow accesses and unknown opcodes.

    `slow_path` says which of these the slow path of sinf and cosf explains; None if there is no PTX.
    """
    candidates = [
        _remark_doubles(arch, code, mix, slow_path),
        _remark_local_memory(code, mix, _explain_local_memory(spill_bytes, registers, slow_path)),
        _remark_narrow_access(code),
        _remark_unknown_opcodes(code, mix),
    ]
    return [remark for remark in candidates if remark]


def _remark_doubles(arch: str, code: Sequence[Instruction], mix: dict[str, int], slow_path: SlowPathUse | None) -> str:
    doubles, floats = mix.get("fp64", 0), mix.get("fp32", 0) + mix.get("fp16", 0)
    if not doubles:
        return ""
    use = find_doubles(code)
    if use.in_memory or not (floats or use.from_floats):
        return ""
    number = re.search(r"\d+", arch)
    ratio = _FP32_PER_FP64.get(int(number.group())) if number else None
    rate = f" {arch} computes {ratio} fp32 results in the time of one fp64 result" if ratio else ""
    beside = f"beside {floats} in fp32 or fp16" if floats else "and none in fp32 or fp16, though the data are floats"
    counted = f"{_count(doubles, 'fp64 instruction')} {beside}{_locate(code, 'fp64')}"
    if slow_path is None:
        return f"{counted}: a double constant, a cast, or {_SLOW_PATH}?{rate}"
    if slow_path.explains_doubles:
        return f"{counted}: from {_SLOW_PATH}"
    return f"{counted}: a double constant or a cast?{rate}"


def _remark_local_memory(code: Sequence[Instruction], mix: dict[str, int], cause: str) -> str:
    if not any(mix.get(kind) for kind in _LOCAL):
        return ""
    moved = {kind: sum(c.bytes for line in code if (c := classify(line)).name == kind) for kind in _LOCAL}
    stores, loads = (f"{moved[kind]} bytes in {_count(mix.get(kind, 0), 'instruction')}" for kind in _LOCAL)
    return f"local memory: a thread stores {stores} and loads {loads}{_locate(code, *_LOCAL)}: {cause}"


def _explain_local_memory(spill_bytes: int | None, registers: int | None, slow_path: SlowPathUse | None) -> str:
    if spill_bytes == 0:
        if slow_path and slow_path.explains_arrays:
            return f"an array of {_SLOW_PATH}"
        return (
            "an array is indexed at run time, which registers do not support: "
            "an index known at compile time (an unrolled loop) keeps it in registers"
        )
    if spill_bytes is None:
        owner = f", perhaps of {_SLOW_PATH}" if slow_path is None or slow_path.explains_arrays else ""
        return f"registers are spilled, or an array is indexed at run time{owner}"
    if registers is not None and registers >= _MAX_REGISTERS:
        return (
            f"the kernel needs more than {registers} registers, the most a thread can have: "
            "smaller tiles or less unrolling keep fewer values live"
        )
    return "registers are spilled"


def _remark_narrow_access(code: Sequence[Instruction]) -> str:
    widths = Counter(
        c.bytes
        for line in code
        if (c := classify(line)).name in ("global_load", "global_store", "async_copy") and c.bytes
    )
    if not widths or max(widths) > 4:
        return ""
    counts = ", ".join(f"{count} of {width} bytes" for width, count in sorted(widths.items()))
    return (
        f"no global access is wider than {max(widths)} bytes per thread ({counts}): "
        "16-byte accesses move the same data with a quarter of the instructions or fewer"
    )


def _remark_unknown_opcodes(code: Sequence[Instruction], mix: dict[str, int]) -> str:
    count = mix.get("unknown", 0)
    if not count:
        return ""
    names = sorted({line.base for line in code if classify(line).name == "unknown"})
    return f"{_count(count, 'instruction')} with unknown opcodes: {', '.join(names[:8])}"


def _count(n: int, noun: str) -> str:
    return f"{n} {noun}" + ("" if n == 1 else "s")


def _locate(code: Sequence[Instruction], *classes: str) -> str:
    """The two source lines that most instructions of these classes come from."""
    sources = Counter(line.source.name for line in code if line.source and classify(line).name in classes)
    names = [name for name, _ in sources.most_common(2)]
    return f" (mostly {' and '.join(names)})" if names else ""
