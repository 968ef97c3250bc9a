"""Smaller cases that stand in for a large one where running the large one would take too long. No torch."""

from __future__ import annotations

import math

from kernellab.declaration.case import ELLIPSIS, Case, Size
from kernellab.declaration.op import Op

_FEW_ROWS = 3


def largest_input(op: Op, case: Case) -> int:
    """The number of elements of the largest input."""
    return max(1, *(math.prod(op.sizes(arg, case)) for arg in op.args.values()))


def shrink_to(op: Op, case: Case, max_elements: int) -> Case:
    """The case itself if its largest input has at most `max_elements`, otherwise a smaller case of the same kind.

    Leading dims shrink first: they repeat the op, while the op computes over the named dims. A dim that equals the
    dim it defaults to keeps following it.
    """
    while largest_input(op, case) > max_elements:
        smaller = _halve_one_dim(op, case)
        if smaller == case or (op.where is not None and not op.where(smaller)):
            return case
        case = smaller
    return case


def _halve_one_dim(op: Op, case: Case) -> Case:
    dims: dict[str, Size] = dict(case.dims)
    lead = dims.get(ELLIPSIS, ())
    assert isinstance(lead, tuple)
    if lead and max(lead) > _FEW_ROWS:
        at = lead.index(max(lead))
        dims[ELLIPSIS] = (*lead[:at], max(_FEW_ROWS, lead[at] // 2), *lead[at + 1 :])
        return case.with_(dims=dims)
    sizes = {dim: n for dim, n in dims.items() if isinstance(n, int) and not _follows_another(op, case, dim)}
    if not sizes:
        return case
    widest = max(sizes, key=lambda dim: sizes[dim])
    return op.resize(case, {widest: max(1, sizes[widest] // 2)})


def _follows_another(op: Op, case: Case, dim: str) -> bool:
    source = op.dim_defaults.get(dim)
    return isinstance(source, str) and case.dims[dim] == case.dims[source]
