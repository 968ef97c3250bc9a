"""What a kernel's tensor cores multiply, read from its PTX, by the names `machine.chips` has rates for: `bf16`."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from kernellab.machinecode.instructions import Instruction, instructions
from kernellab.machinecode.ptx import Entry

_KINDS = {"f16": "fp16", "bf16": "bf16", "tf32": "tf32", "f64": "fp64"}
_KINDS |= {"e4m3": "fp8", "e5m2": "fp8", "s8": "int8", "u8": "int8"}
# tcgen05 names a family; f16 stands for bf16 too, which is as fast. Its shape is not in the instruction.
_FAMILIES = {"kind::f16": "fp16", "kind::tf32": "tf32", "kind::f8f6f4": "fp8", "kind::i8": "int8"}
_THREADS = {"mma": 32, "wgmma": 128}
_SHAPE = re.compile(r"m(\d+)n(\d+)k(\d+)")


@dataclass(frozen=True)
class Product:
    """One kind of tensor-core instruction: what it multiplies, and its operations per thread; 0 where not known."""

    kind: str
    flops: int = 0


def products(entry: Entry) -> list[Product]:
    """Every kind there is, in the order of the code."""
    return list(dict.fromkeys(found for line in instructions(entry.body) if (found := _product(line))))


def _product(line: Instruction) -> Product | None:
    if line.base == "tcgen05" and line.has("mma"):
        kind = next((_FAMILIES[m] for m in line.modifiers if m in _FAMILIES), "")
        return Product(kind) if kind else None
    multiplies = line.base == "mma" or (line.base in ("wmma", "wgmma") and line.has("mma", "mma_async"))
    # The result's type stands first, the operands' after it; wmma leaves those of fp16 out.
    types = [m for m in line.modifiers if m in _KINDS or m in ("f32", "s32")]
    if not multiplies or len(types) < 2:
        return None
    shape = next((found for m in line.modifiers if (found := _SHAPE.fullmatch(m))), None)
    # What a wmma becomes in SASS is several instructions, and not as many everywhere.
    threads = _THREADS.get(line.base)
    flops = 2 * math.prod(map(int, shape.groups())) // threads if shape and threads else 0
    return Product(_KINDS.get(types[1], "fp16"), flops)
