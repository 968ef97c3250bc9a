"""What a kernel's tensor cores multiply, read from its PTX, by the names `machine.chips` has rates for: `bf16`."""

from __future__ import annotations

from kernellab.machinecode.instructions import Instruction, instructions
from kernellab.machinecode.ptx import Entry

_KINDS = {"f16": "fp16", "bf16": "bf16", "tf32": "tf32", "f64": "fp64"}
_KINDS |= {"e4m3": "fp8", "e5m2": "fp8", "s8": "int8", "u8": "int8"}
# tcgen05 names a family; f16 stands for bf16 too, which is as fast.
_FAMILIES = {"kind::f16": "fp16", "kind::tf32": "tf32", "kind::f8f6f4": "fp8", "kind::i8": "int8"}


def products(entry: Entry) -> list[str]:
    """Every kind there is, in the order of the code."""
    return list(dict.fromkeys(kind for line in instructions(entry.body) if (kind := _kind(line))))


def _kind(line: Instruction) -> str:
    if line.base == "tcgen05" and line.has("mma"):
        return next((_FAMILIES[m] for m in line.modifiers if m in _FAMILIES), "")
    multiplies = line.base == "mma" or (line.base in ("wmma", "wgmma") and line.has("mma", "mma_async"))
    # The result's type stands first, the operands' after it; wmma leaves those of fp16 out.
    types = [m for m in line.modifiers if m in _KINDS or m in ("f32", "s32")]
    return _KINDS.get(types[1], "fp16") if multiplies and len(types) > 1 else ""
