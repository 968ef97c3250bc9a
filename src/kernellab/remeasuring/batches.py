"""Batches: times that one process of each version measures together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from kernellab.comparison.pairs import SeriesKey
from kernellab.declaration.documents import CaseJson
from kernellab.timing.timers import TIMERS


@dataclass(frozen=True)
class Batch:
    """Times that a single command can measure: of one op, or of several with the same implementations and sizes."""

    ops: Sequence[str]
    keys: Sequence[SeriesKey]

    def words(self, targets: Sequence[str], *, seed: int, seconds: float, out: str) -> list[str]:
        """The command line of `klab` that measures them. Every value stands behind a `=`, so that none is an option."""
        first = self.keys[0]
        case = first.result.case
        timer = TIMERS.get(first.timer or "")
        options = [f"--opt={name}={value}" for name, value in case["options"].items()]
        return [
            "bench",
            *targets,
            f"--impl={','.join(_distinct(key.result.impl for key in self.keys))}",
            f"--shape={','.join(_distinct(shape(key.result.case) for key in self.keys))}",
            f"--dtype={case['dtype']}",
            *options,
            f"--pass={first.pass_name}",
            *([f"--timer={first.timer}"] if first.timer else []),
            *([f"--cache={first.cache}"] if first.cache else []),
            f"--device={case['device']}",
            f"--seed={seed}",
            f"--seconds={seconds}",
            *([] if timer is not None and timer.needs_profiler else ["--only-times"]),
            f"--out={out}",
        ]


def shape(case: CaseJson) -> str:
    """The sizes of all dims in order, as `--shape` takes them."""
    sizes = [size for value in case["dims"].values() for size in (value if isinstance(value, list) else [value])]
    return "x".join(map(str, sizes))


def make_batches(keys: Iterable[SeriesKey], place: Callable[[str], str]) -> list[Batch]:
    """The keys in few batches, because a process takes seconds to start.

    `place` says where the code of an op is. Ops at one place share a process if their implementations and sizes are the
    same, so that nothing else is measured with them.
    """
    of_op: dict[str, list[SeriesKey]] = {}
    for key in keys:
        of_op.setdefault(repr((key.result.op, _series(key))), []).append(key)
    batches: dict[str, list[SeriesKey]] = {}
    for found in of_op.values():
        impls, shapes = ({part(key) for key in found} for part in (_impl, _shape))
        alike = (place(found[0].result.op), _series(found[0]), sorted(impls), sorted(shapes))
        batches.setdefault(repr(alike), []).extend(found)
    return [Batch(_distinct(key.result.op for key in found), found) for found in batches.values()]


def _series(key: SeriesKey) -> tuple[object, ...]:
    """Everything but op, implementation and sizes."""
    case = key.result.case
    return case["dtype"], case["options"], case["device"], key.pass_name, key.timer, key.cache


def _impl(key: SeriesKey) -> str:
    return key.result.impl


def _shape(key: SeriesKey) -> str:
    return shape(key.result.case)


def _distinct(texts: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(texts))
