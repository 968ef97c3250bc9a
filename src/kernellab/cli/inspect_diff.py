"""`klab inspect OP --diff A B`: two of an op's kernels side by side, by way, architecture, configuration or run."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernellab.base.errors import UserError
from kernellab.cli import inspect_files
from kernellab.cli.inspect_op import listing_of
from kernellab.machine.chips import chip

if TYPE_CHECKING:
    from kernellab.codeanalysis.code_files import Listing
    from kernellab.record.schema import Record
    from kernellab.reporting.terminal.inspection import InspectedKernel as Kernel

Inspect = Callable[[list[str], list[str]], tuple["Record", Path]]


@dataclass(frozen=True)
class Side:
    """`triton`, `triton@sm_90`, `triton@sm_90#2`, or `RUN` and `RUN:triton@sm_90` of an earlier inspection."""

    text: str
    run: Path | None
    impl: str
    arch: str
    number: int | None

    def fits(self, kernel: Kernel) -> bool:
        return (
            self.impl in ("", kernel["impl"])
            and self.arch in ("", kernel["arch"])
            and self.number in (None, _number(kernel))
            and "cubin" in kernel["files"]
        )


def side(text: str) -> Side:
    path, _, rest = text.rpartition(":")
    run = next((Path(p) for p in (text, path) if p and Path(p).is_dir()), None)
    spec = "" if run is not None and str(run) == text.rstrip("/") else rest if run is not None else text
    found = re.fullmatch(r"([^@#]*)(?:@([^@#]+))?(?:#(\d+))?", spec)
    if not found or (run is None and not found[1]):
        raise UserError(f"cannot read --diff {text!r}: write a way, triton@sm_90, triton#2, or a run's folder")
    if found[3] and int(found[3]) < 1:
        raise UserError(f"--diff {text!r}: configurations are numbered from 1")
    return Side(text, run, found[1], chip(found[2]).arch if found[2] else "", int(found[3]) if found[3] else None)


def run(args: argparse.Namespace, inspect: Inspect) -> int:
    if len(args.diff) != 2:
        raise UserError("--diff compares two: klab inspect gelu --diff triton@sm_90 cuda@sm_90")
    sides = [side(text) for text in args.diff]
    now = [one for one in sides if one.run is None]
    fresh = None
    if now:
        archs = list(dict.fromkeys(one.arch for one in now if one.arch))
        fresh = inspect(list(dict.fromkeys(one.impl for one in now)), archs)
    found = [_found(one, fresh) for one in sides]
    pairs = [(left, right) for left, right in _paired(sides, found) if not _same(left, right)]
    if not pairs:
        raise UserError(f"--diff {sides[0].text} {sides[1].text}: both are the same kernel: nothing can differ")
    for pair in pairs:
        inspect_files.compare(args, [_listing(one, *kernel) for one, kernel in zip(sides, pair, strict=True)])
    timings = [args.timings, *(one.run for one in sides)]
    if not args.json:
        for line in dict.fromkeys(filter(None, (times(Path(t), pairs[0]) for t in timings if t))):
            print(line)
    return 0


Found = tuple["Kernel", Path]


def _listing(one: Side, kernel: Kernel, folder: Path) -> Listing:
    """Called after its run too: a kernel before and after an edit has one name."""
    found = listing_of(kernel, folder)
    if one.run is not None:
        found.name = f"{one.run}:{found.name}"
    return found


def _same(left: Found, right: Found) -> bool:
    return len({(folder / kernel["files"]["cubin"]).resolve() for kernel, folder in (left, right)}) == 1


def _found(one: Side, fresh: tuple[Record, Path] | None) -> list[Found]:
    from kernellab.record.reading import load
    from kernellab.reporting.terminal.inspection import list_kernels

    if one.run is not None:
        record, folder = load(one.run), one.run
    else:
        assert fresh is not None
        record, folder = fresh
    found = [(kernel, folder) for kernel in list_kernels(record) if one.fits(kernel)]
    if not found:
        _explain_missing(one, list_kernels(record))
        reasons = dict.fromkeys(entry["reason"] for entry in record["code"] if one.impl in ("", entry["impl"]))
        why = "; ".join(filter(None, reasons)) or "nothing was captured for it"
        raise UserError(f"--diff {one.text}: no machine code: {why}")
    return found


def _explain_missing(one: Side, known: list[Kernel]) -> None:
    """Where there is machine code, but none of that way, architecture or configuration."""
    known = [kernel for kernel in known if "cubin" in kernel["files"]]
    for what, asked, of in (
        ("way", one.impl, lambda kernel: kernel["impl"]),
        ("architecture", one.arch, lambda kernel: kernel["arch"]),
        ("configuration", one.number, _number),
    ):
        there = list(dict.fromkeys(map(of, known)))
        if there and asked and asked not in there:
            raise UserError(f"--diff {one.text}: no such {what}: there {_told(there)}")
        known = [kernel for kernel in known if not asked or of(kernel) == asked]


def _number(kernel: Kernel) -> int:
    """Of a tuner's configurations, from 1."""
    return kernel["tuned"][0] + 1 if kernel["tuned"] else 1


def _told(there: list[Any]) -> str:
    if len(there) == 1:
        return f"is {there[0]}"
    return f"are {', '.join(map(str, there[:-1]))} and {there[-1]}"


def _paired(sides: list[Side], found: list[list[Found]]) -> list[tuple[Found, Found]]:
    """One with one; several by name and configuration, an architecture or a way that was named left open."""
    left, right = found
    if len(left) == len(right) == 1:
        return [(left[0], right[0])]
    same_way = sides[0].impl == sides[1].impl
    same_arch = sides[0].arch == sides[1].arch

    def key(kernel: Kernel) -> tuple[Any, ...]:
        way = (kernel["impl"], kernel["name"]) if same_way else ()
        return (*way, *((kernel["arch"],) if same_arch else ()), str(kernel["tuned"]), kernel["pass"])

    others = {key(kernel): (kernel, folder) for kernel, folder in right}
    pairs = [(one, others[key(one[0])]) for one in left if key(one[0]) in others]
    if not pairs:
        counts = " and ".join(f"{len(some)} of {one.text}" for some, one in zip(found, sides, strict=True))
        raise UserError(f"--diff: kernels that do not pair up, {counts}: name one each, triton@sm_90#2")
    return pairs


def times(run: Path, pair: tuple[Found, Found]) -> str | None:
    """How long the two took, where a run has timed both: `time: triton 506.6 µs, cuda 506.5 µs`."""
    from kernellab.record import verdict
    from kernellab.record.reading import load
    from kernellab.reporting.text import numbers as words

    record = verdict.derive(load(run))
    told = []
    for kernel, _ in pair:
        case = {k: v for k, v in (kernel["case"] or {}).items() if k != "device"}
        for result in record["results"]:
            time = result["derived"].get("time")
            at = {k: v for k, v in result["case"].items() if k != "device"}
            if (result["op"], result["impl"], at) == (kernel["op"], kernel["impl"], case) and time:
                told.append((kernel["impl"], time["median_us"]))
    if len(told) != 2:
        return None
    (left, before), (right, after) = told
    change = 100 * (after - before) / before
    return f"time: {left} {words.duration(before)}, {right} {words.duration(after)} ({change:+.1f} %), in {run}"
