"""Small pieces of the sentences that explain PTX: numbers, types, registers, rounding, caches."""

from __future__ import annotations

import math
from collections.abc import Sequence

from kernellab.machinecode.instructions import Instruction, Operand
from kernellab.ptxwords.registers import Known

_COUNTS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight")
_TYPES = {
    "pred": "true-or-false values",
    "f16": "fp16",
    "f16x2": "pairs of fp16",
    "bf16": "bf16",
    "bf16x2": "pairs of bf16",
    "f32": "fp32",
    "f32x2": "pairs of fp32",
    "f64": "fp64",
    "tf32": "tf32",
    "e4m3": "fp8 (e4m3)",
    "e5m2": "fp8 (e5m2)",
    "e4m3x2": "pairs of fp8 (e4m3)",
    "e5m2x2": "pairs of fp8 (e5m2)",
    "e2m1": "fp4 (e2m1)",
    "e2m1x2": "pairs of fp4 (e2m1)",
}
FLOATS = frozenset(_TYPES) - {"pred"}
ROUNDING = {
    "rn": "to nearest even",
    "rna": "to nearest, halves away from zero",
    "rz": "towards zero",
    "rm": "down",
    "rp": "up",
    "rni": "to the nearest integer, halves to even",
    "rzi": "to an integer towards zero",
    "rmi": "down to an integer",
    "rpi": "up to an integer",
    "rs": "up or down by chance",
}


def is_type(modifier: str) -> bool:
    return modifier in _TYPES or (modifier[:1] in ("b", "s", "u") and modifier[1:].isdigit())


def types(line: Instruction) -> list[str]:
    """The types an opcode names, in its order: the result's first where they differ."""
    return [modifier for modifier in line.modifiers if is_type(modifier)]


def type_words(name: str) -> str:
    """`s64` is "signed 64-bit integers"."""
    if name in _TYPES:
        return _TYPES[name]
    sign = {"s": "signed ", "u": "unsigned "}.get(name[:1], "")
    return f"{sign}{name[1:]}-bit {'integers' if sign else 'values'}" if name else "values"


def bits(name: str) -> int:
    digits = "".join(c for c in name.partition("x")[0].lstrip("bfsuet") if c.isdigit())
    width = {"f16x2": 32, "bf16x2": 32, "f32x2": 64}.get(name)
    return width if width is not None else int(digits) if digits.isdigit() and len(digits) < 6 else 0


def count(n: int, noun: str) -> str:
    word = _COUNTS[n] if 0 <= n < len(_COUNTS) else str(n)
    return f"{word} {noun}" + ("" if n == 1 else "s")


def number(operand: Operand) -> str:
    """A constant as a person writes it; a float's bits are decoded, and kept beside what they mean."""
    value = operand.value
    if isinstance(value, float):
        if math.isinf(value):
            said = "infinity" if value > 0 else "-infinity"
        else:
            said = "NaN" if math.isnan(value) else f"{value:.9g}"
            said = f"{said}.0" if said.lstrip("-").isdigit() else said
        return f"{said} ({operand.text})" if operand.text[:2].lower() in ("0f", "0d") else said
    if value is None:
        return operand.text
    return str(value) if abs(value) < 1 << 16 else operand.text


def show(operand: Operand, known: Known) -> str:
    """An operand in a sentence: registers with what they are known to hold."""
    if operand.kind == "immediate":
        return number(operand)
    if operand.kind == "register":
        if operand.name in SPECIAL:
            return f"{operand.text} ({SPECIAL[operand.name]})"
        sign = "minus " if operand.text.startswith("-") else "not " if operand.negated else ""
        held = known.holds.get(operand.name)
        return f"{sign}{operand.name} ({held})" if held else f"{sign}{operand.name}"
    if operand.kind in ("vector", "group"):
        return listed([part.text for part in operand.parts])
    if operand.kind == "pair":
        return " and ".join(show(part, known) for part in operand.parts)
    if operand.kind == "address":
        return place(operand, known)
    return operand.text


def place(operand: Operand, known: Known) -> str:
    """An address in a sentence: `%rd4 + 16`."""
    if not operand.parts:
        return operand.text
    base = operand.parts[0]
    held = known.holds.get(base.name)
    said = f"{base.text} ({held})" if held else base.text
    offset = operand.value or 0
    return said if not offset else f"{said} {'+' if offset > 0 else '-'} {abs(offset)}"


def listed(names: Sequence[str]) -> str:
    """`%r1…%r4` where registers follow each other, else all of them, or the ends of a long list."""
    if len(names) > 2:
        digits = [name.lstrip("%abcdefghijklmnopqrstuvwxyz") for name in names]
        if all(d.isdigit() and len(d) < 9 for d in digits):
            first = int(digits[0])
            if [int(d) for d in digits] == list(range(first, first + len(names))):
                return f"{names[0]}…{names[-1]}"
        if len(names) > 8:
            return f"{names[0]}, {names[1]}, … {names[-1]} ({len(names)} registers)"
    return ", ".join(names[:-1]) + (" and " if len(names) > 1 else "") + (names[-1] if names else "nothing")


def groups_left(pending: str) -> str:
    """What a wait for asynchronous work waits for, from how many groups may be left."""
    if pending == "0":
        return "all groups"
    return "all groups but the last" if pending == "1" else f"all groups but the last {pending}"


def precision(line: Instruction) -> str:
    """What an opcode says about rounding: ", rounded to nearest even, subnormal numbers taken for 0"."""
    said = [f"rounded {ROUNDING[m]}" for m in line.modifiers if m in ROUNDING and m != "rs"]
    said += ["approximately"] if line.has("approx") else []
    said += ["subnormal numbers taken for 0"] if line.has("ftz") else []
    said += [_clamped(line)] if line.has("sat") else []
    said += ["negative results made 0"] if line.has("relu") else []
    return "".join(f", {part}" for part in said)


def _clamped(line: Instruction) -> str:
    """What `.sat` does: floats stay between 0 and 1, integers within what their type holds."""
    result = next(iter(types(line)), "")
    if result in FLOATS or not result:
        return "clamped to 0…1"
    return f"clamped to what {type_words(result)} can hold instead of wrapping around"


_AXES = {"x": " x", "y": " y", "z": " z"}
_SPECIAL = {
    "%tid": "the thread's index in its block",
    "%ntid": "the number of threads in a block",
    "%ctaid": "the block's index in the grid",
    "%nctaid": "the number of blocks in the grid",
    "%clusterid": "the cluster's index in the grid",
    "%nclusterid": "the number of clusters in the grid",
    "%cluster_ctaid": "the block's index in its cluster",
    "%cluster_nctaid": "the number of blocks in a cluster",
}
SPECIAL = {f"{name}.{axis}": f"{said},{more}" for name, said in _SPECIAL.items() for axis, more in _AXES.items()} | {
    "%laneid": "the thread's index in its warp",
    "%warpid": "the warp's index in its block",
    "%nwarpid": "the most warps a block can have",
    "%smid": "the SM this runs on",
    "%nsmid": "the number of SMs",
    "%gridid": "the launch's number",
    "%cluster_ctarank": "the block's rank in its cluster",
    "%cluster_nctarank": "the number of blocks in the cluster",
    "%lanemask_eq": "a mask of this thread in its warp",
    "%lanemask_le": "a mask of the warp's threads up to this one",
    "%lanemask_lt": "a mask of the warp's threads before this one",
    "%lanemask_ge": "a mask of the warp's threads from this one on",
    "%lanemask_gt": "a mask of the warp's threads after this one",
    "%clock": "a counter of clock cycles",
    "%clock64": "a counter of clock cycles",
    "%globaltimer": "a clock in nanoseconds",
    "%dynamic_smem_size": "the bytes of shared memory the launch asked for",
    "%total_smem_size": "the bytes of shared memory of a block",
}
