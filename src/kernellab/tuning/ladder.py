"""The sizes at which an op is tuned: its declared cases, and a ladder of widths and of element counts.

An op that reduces its rows is measured at several widths. Otherwise the number of elements alone matters.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from kernellab.base.errors import UserError
from kernellab.declaration.case import Case, Size
from kernellab.declaration.documents import CaseJson
from kernellab.running.protocol.events import OpLoaded
from kernellab.vocabulary.dims import size_of

_COLUMNS = {"cpu": (256, 1024, 8192), "cuda": (256, 1024, 4096, 16384, 65536, 131072)}
# From where launching decides to where memory does. The declared cases are larger on a GPU.
_ELEMENTS = {"cpu": (1 << 16, 1 << 19, 1 << 22), "cuda": (1 << 20, 1 << 24)}


def first_input_size(op: OpLoaded, case: CaseJson) -> tuple[int, int]:
    """The columns and the elements of an op's first input at a case: what rules ask for."""
    sizes = _flat(size_of(dim, Case.from_json(case).dims) for dim in op.first_input)
    return (sizes[-1] if sizes else 1), math.prod(sizes)


def shapes_to_measure(op: OpLoaded, device_type: str) -> list[list[int]]:
    """The shapes of the declared cases, and those of the ladder, each once."""
    declared = [Case.from_json(case).dims for case in op.cases]
    if not declared:
        raise UserError(f"op {op.name} declares no cases: name sizes with --shape")
    first, *_ = declared
    if op.reduces:
        steps = [(columns, count) for columns in _COLUMNS[device_type] for count in _ELEMENTS[device_type]]
        ladder = [_resize_rows(op, first, columns, count) for columns, count in steps]
    else:
        ladder = [_scale(op, first, count) for count in _ELEMENTS[device_type]]
    return list(map(list, dict.fromkeys(tuple(_flat(dims.values())) for dims in (*declared, *ladder))))


def _resize_rows(op: OpLoaded, dims: Mapping[str, Size], columns: int, elements: int) -> dict[str, Size]:
    """Rows of this width, as many as there are elements for, in the first dim."""
    *leading, last = op.first_input
    rows = max(1, elements // columns)
    sizes: dict[str, Size] = {**dims, last: columns}
    for place, name in enumerate(leading):
        size = rows if place == 0 else 1
        sizes[name] = (size,) if isinstance(dims[name], tuple) else size
    return sizes


def _scale(op: OpLoaded, dims: Mapping[str, Size], elements: int) -> dict[str, Size]:
    """The dims with the longest but the last dim of the first input as long as there are elements for."""
    *leading, last = ((name, list(_flat([dims[name]]))) for name in op.first_input if name in dims)
    if not leading:
        return {**dims, last[0]: elements}
    name, sizes = max(leading, key=lambda entry: max(entry[1], default=0))
    others = math.prod(_flat(dims[name] for name in op.first_input)) // max(1, max(sizes))
    sizes[sizes.index(max(sizes))] = max(1, elements // max(1, others))
    return {**dims, name: tuple(sizes) if isinstance(dims[name], tuple) else sizes[0]}


def _flat(sizes: Iterable[Size]) -> list[int]:
    return [n for size in sizes for n in (size if isinstance(size, tuple) else (size,))]
