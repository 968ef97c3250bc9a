"""The types that a kernel's tensor cores multiply, read from its PTX. Named as in `machine.chips`: `bf16`."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from kernellab.codeanalysis.kernel_json import MatrixProductJson
from kernellab.machinecode.instructions import Instruction, instructions
from kernellab.machinecode.ptx import PtxFunction

_KINDS = {"f16": "fp16", "bf16": "bf16", "tf32": "tf32", "f64": "fp64"}
_KINDS |= {"e4m3": "fp8", "e5m2": "fp8", "s8": "int8", "u8": "int8"}
# tcgen05 names a family of types; f16 includes bf16, which is as fast. The instruction does not contain the shape.
_FAMILIES = {"kind::f16": "fp16", "kind::tf32": "tf32", "kind::f8f6f4": "fp8", "kind::i8": "int8"}
_THREADS = {"mma": 32, "wgmma": 128}
_SHAPE = re.compile(r"m(\d+)n(\d+)k(\d+)")


@dataclass(frozen=True)
class MatrixProduct:
    """One kind of tensor-core instruction: the type it multiplies, and its operations per thread; 0 if not known."""

    kind: str
    flops: int = 0

    def to_json(self) -> MatrixProductJson:
        return {"kind": self.kind, "flops": self.flops}


def find_matrix_products(kernel: PtxFunction) -> list[MatrixProduct]:
    """Every kind of tensor-core instruction, in the order of the code."""
    products = (_parse_product(line) for line in instructions(kernel.body))
    return list(dict.fromkeys(product for product in products if product is not None))


def _parse_product(line: Instruction) -> MatrixProduct | None:
    if line.base == "tcgen05" and line.has("mma"):
        kind = next((_FAMILIES[m] for m in line.modifiers if m in _FAMILIES), "")
        return MatrixProduct(kind) if kind else None
    multiplies = line.base == "mma" or (line.base in ("wmma", "wgmma") and line.has("mma", "mma_async"))
    # The type of the result comes first, those of the operands follow; wmma omits them for fp16.
    types = [m for m in line.modifiers if m in _KINDS or m in ("f32", "s32")]
    if not multiplies or len(types) < 2:
        return None
    shape = next((match for m in line.modifiers if (match := _SHAPE.fullmatch(m))), None)
    # A wmma becomes several instructions in SASS; how many depends on the architecture.
    threads = _THREADS.get(line.base)
    flops = 2 * math.prod(map(int, shape.groups())) // threads if shape and threads else 0
    return MatrixProduct(_KINDS.get(types[1], "fp16"), flops)
