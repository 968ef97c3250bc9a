"""Batches: times that one process of each version measures together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kernellab.comparison.pairs import SeriesKey
from kernellab.declaration.documents import CaseJson
from kernellab.timing.timers import TIMERS


@dataclass(frozen=True)
class Batch:
    """Times of one op that differ in implementation and sizes alone."""

    op: str
    keys: Sequence[SeriesKey]

    def words(self, target: str, *, seed: int, seconds: float, out: str) -> list[str]:
        """The command line of `klab` that measures them. Every value stands behind a `=`, so that none is an option."""
        first = self.keys[0]
        case = first.result.case
        timer = TIMERS.get(first.timer or "")
        options = [f"--opt={name}={value}" for name, value in case["options"].items()]
        return [
            "bench",
            target,
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


def make_batches(keys: Iterable[SeriesKey]) -> list[Batch]:
    """Times that a single command can measure are one batch."""
    batches: dict[str, list[SeriesKey]] = {}
    for key in keys:
        case = key.result.case
        alike = (key.result.op, case["dtype"], case["options"], case["device"], key.pass_name, key.timer, key.cache)
        batches.setdefault(repr(alike), []).append(key)
    return [Batch(found[0].result.op, found) for found in batches.values()]


def _distinct(texts: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(texts))
