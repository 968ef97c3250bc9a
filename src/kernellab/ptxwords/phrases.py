"""Phrases that the sentences about PTX share: numbers, types, operands, addresses, rounding."""

from __future__ import annotations

import math
from collections.abc import Sequence

from kernellab.machinecode.instructions import Instruction, Operand
from kernellab.ptxwords.registers import KernelContext

_COUNTS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight")
_TYPES = {
    "pred": "predicates (true or false)",
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
SCOPES = {"cta": "the block", "cluster": "the cluster", "gpu": "the GPU", "sys": "the whole system"}
ROUNDING = {
    "rn": "to nearest even",
    "rna": "to nearest, ties away from zero",
    "rz": "towards zero",
    "rm": "down",
    "rp": "up",
    "rni": "to the nearest integer, ties to even",
    "rzi": "to an integer towards zero",
    "rmi": "down to an integer",
    "rpi": "up to an integer",
    "rs": "stochastically, up or down",
}


def is_type(modifier: str) -> bool:
    return modifier in _TYPES or (modifier[:1] in ("b", "s", "u") and modifier[1:].isdigit())


def types(line: Instruction) -> list[str]:
    """The types in an opcode, in order. If they differ, the result's comes first."""
    return [modifier for modifier in line.modifiers if is_type(modifier)]


def describe_type(name: str) -> str:
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


def describe_number(operand: Operand) -> str:
    """A constant in decimal. The bits of a float are decoded, and given in parentheses."""
    value = operand.value
    if isinstance(value, float):
        if math.isinf(value):
            text = "infinity" if value > 0 else "-infinity"
        else:
            text = "NaN" if math.isnan(value) else f"{value:.9g}"
            text = f"{text}.0" if text.lstrip("-").isdigit() else text
        return f"{text} ({operand.text})" if operand.text[:2].lower() in ("0f", "0d") else text
    if value is None:
        return operand.text
    return str(value) if abs(value) < 1 << 16 else operand.text


def describe_operand(operand: Operand, context: KernelContext) -> str:
    """An operand in a sentence: a register with what it holds, if that is known."""
    if operand.kind == "immediate":
        return describe_number(operand)
    if operand.kind == "register":
        if operand.name in SPECIAL:
            return f"{operand.text} ({SPECIAL[operand.name]})"
        sign = "minus " if operand.text.startswith("-") else "not " if operand.negated else ""
        content = context.contents.get(operand.name)
        return f"{sign}{operand.name} ({content})" if content else f"{sign}{operand.name}"
    if operand.kind in ("vector", "group"):
        return join_names([part.text for part in operand.parts])
    if operand.kind == "pair":
        return " and ".join(describe_operand(part, context) for part in operand.parts)
    if operand.kind == "address":
        return describe_address(operand, context)
    return operand.text


def describe_address(operand: Operand, context: KernelContext) -> str:
    """An address in a sentence: `%rd4 (pointer 0) + 16`."""
    if not operand.parts:
        return operand.text
    base = operand.parts[0]
    content = context.contents.get(base.name)
    text = f"{base.text} ({content})" if content else base.text
    offset = operand.value or 0
    return text if not offset else f"{text} {'+' if offset > 0 else '-'} {abs(offset)}"


def join_names(names: Sequence[str]) -> str:
    """`%r1…%r4` for consecutive registers, else all names, or the ends of a long list."""
    if len(names) > 2:
        digits = [name.lstrip("%abcdefghijklmnopqrstuvwxyz") for name in names]
        if all(d.isdigit() and len(d) < 9 for d in digits):
            first = int(digits[0])
            if [int(d) for d in digits] == list(range(first, first + len(names))):
                return f"{names[0]}…{names[-1]}"
        if len(names) > 8:
            return f"{names[0]}, {names[1]}, … {names[-1]} ({len(names)} registers)"
    return ", ".join(names[:-1]) + (" and " if len(names) > 1 else "") + (names[-1] if names else "nothing")


def describe_groups(pending: str) -> str:
    """The groups of asynchronous work that a wait waits for. `pending` is how many may still be pending after it."""
    if pending == "0":
        return "all groups"
    return "all groups but the last" if pending == "1" else f"all groups but the last {pending}"


def describe_modifiers(line: Instruction) -> str:
    """Rounding, precision and clamping: ", rounded to nearest even, subnormals flushed to 0"."""
    phrases = [f"rounded {ROUNDING[m]}" for m in line.modifiers if m in ROUNDING and m != "rs"]
    phrases += ["approximate"] if line.has("approx") else []
    phrases += ["subnormals flushed to 0"] if line.has("ftz") else []
    phrases += [_describe_saturation(line)] if line.has("sat") else []
    phrases += ["negative results set to 0"] if line.has("relu") else []
    return "".join(f", {phrase}" for phrase in phrases)


def _describe_saturation(line: Instruction) -> str:
    """`.sat` clamps floats to 0…1 and integers to the range of their type."""
    result = next(iter(types(line)), "")
    if result in FLOATS or not result:
        return "clamped to 0…1"
    return f"clamped to the range of {describe_type(result)} instead of wrapping around"


# What the special registers hold.
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
SPECIAL = {f"{name}.{axis}": f"{text}, {axis}" for name, text in _SPECIAL.items() for axis in "xyz"} | {
    "%laneid": "the thread's index in its warp",
    "%warpid": "the warp's index in its block",
    "%nwarpid": "the largest number of warps of a block",
    "%smid": "the number of the SM that runs this thread",
    "%nsmid": "the number of SMs",
    "%gridid": "the number of the launch",
    "%cluster_ctarank": "the block's rank in its cluster",
    "%cluster_nctarank": "the number of blocks in the cluster",
    "%lanemask_eq": "a mask with only this thread of the warp",
    "%lanemask_le": "a mask of the warp's threads up to this one",
    "%lanemask_lt": "a mask of the warp's threads before this one",
    "%lanemask_ge": "a mask of the warp's threads from this one on",
    "%lanemask_gt": "a mask of the warp's threads after this one",
    "%clock": "a counter of clock cycles",
    "%clock64": "a counter of clock cycles",
    "%globaltimer": "a clock in nanoseconds",
    "%dynamic_smem_size": "the bytes of dynamic shared memory of the launch",
    "%total_smem_size": "the bytes of shared memory of a block",
}
