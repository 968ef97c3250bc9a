"""Smaller cases that stand in for a large one, where running it whole would take too long."""

from __future__ import annotations

from kernellab.declaration.case import ELLIPSIS, Case, Size
from kernellab.declaration.op import Op

_FEW_ROWS = 3


def largest(op: Op, case: Case) -> int:
    """Elements of the largest input."""
    sizes = [1]
    for arg in op.args.values():
        count = 1
        for n in op.sizes(arg, case):
            count *= n
        sizes.append(count)
    return max(sizes)


def standin(op: Op, case: Case, limit: int) -> Case:
    """The case itself if its largest input has at most `limit` elements, else a smaller one like it.

    Leading dims shrink first: they repeat the op, while the named dims are what it works on. A dim
    that equals the one it defaults to keeps following it.
    """
    while largest(op, case) > limit:
        smaller = _shrink(op, case)
        if smaller == case or (op.where is not None and not op.where(smaller)):
            return case
        case = smaller
    return case


def _shrink(op: Op, case: Case) -> Case:
    dims: dict[str, Size] = dict(case.dims)
    lead = dims.get(ELLIPSIS, ())
    assert isinstance(lead, tuple)
    if lead and max(lead) > _FEW_ROWS:
        at = lead.index(max(lead))
        dims[ELLIPSIS] = (*lead[:at], max(_FEW_ROWS, lead[at] // 2), *lead[at + 1 :])
        return case.with_(dims=dims)
    named = {d: n for d, n in dims.items() if isinstance(n, int) and not _follows(op, case, d)}
    if not named:
        return case
    widest = max(named, key=lambda d: named[d])
    return op.resize(case, {widest: max(1, named[widest] // 2)})


def _follows(op: Op, case: Case, dim: str) -> bool:
    source = op.dim_defaults.get(dim)
    return isinstance(source, str) and case.dims[dim] == case.dims[source]
