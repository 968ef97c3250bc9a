"""`klab inspect OP --diff A B`: compares two of an op's kernels, of given implementations, architectures,
configurations or runs."""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kernellab.base.errors import UserError
from kernellab.cli import inspect_files, inspect_op
from kernellab.cli.options import choose
from kernellab.machine.chips import chip

if TYPE_CHECKING:
    from kernellab.codeanalysis.code_files import Listing
    from kernellab.record.schema import Record
    from kernellab.reporting.terminal.inspection import InspectedKernel

LocatedKernel = tuple["InspectedKernel", Path]  # a kernel, and the folder that its files are in


@dataclass(frozen=True)
class Side:
    """`triton`, `triton@sm_90`, `triton@sm_90#2`, or `RUN` and `RUN:triton@sm_90` of an earlier inspection.

    An empty `impl` or `arch`, and a `number` that is None, match any.
    """

    text: str
    run: Path | None
    impl: str
    arch: str
    number: int | None  # of a tuner's configurations, from 1

    def matches(self, kernel: InspectedKernel) -> bool:
        return (
            self.impl in ("", kernel["impl"])
            and self.arch in ("", kernel["arch"])
            and self.number in (None, _number(kernel))
            and "cubin" in kernel["files"]
        )


def parse_side(text: str) -> Side:
    path, _, rest = text.rpartition(":")
    run = next((Path(p) for p in (text, path) if p and Path(p).is_dir()), None)
    spec = "" if run is not None and str(run) == text.rstrip("/") else rest if run is not None else text
    parts = re.fullmatch(r"([^@#]*)(?:@([^@#]+))?(?:#(\d+))?", spec)
    if not parts or (run is None and not parts[1]):
        raise UserError(
            f"cannot read --diff {text!r}: write an implementation, triton@sm_90, triton#2, or a run's folder"
        )
    if parts[3] and int(parts[3]) < 1:
        raise UserError(f"--diff {text!r}: configurations are numbered from 1")
    return Side(text, run, parts[1], chip(parts[2]).arch if parts[2] else "", int(parts[3]) if parts[3] else None)


def run(args: argparse.Namespace) -> int:
    if len(args.diff) != 2:
        raise UserError("--diff compares two kernels: klab inspect gelu --diff triton@sm_90 cuda@sm_90")
    choose("--show", args.show or "facts", inspect_op.SHOW_CHOICES)
    sides = [parse_side(text) for text in args.diff]
    located = _locate(args, sides)
    pairs = [(left, right) for left, right in _pair(sides, located) if not _is_same(left, right)]
    if not pairs:
        raise UserError(f"--diff {sides[0].text} {sides[1].text}: both sides are the same kernel")
    for pair in pairs:
        inspect_files.compare(args, [_listing(side, *kernel) for side, kernel in zip(sides, pair, strict=True)])
    if not args.json:
        runs = [Path(run) for run in (args.timings, *(side.run for side in sides)) if run]
        for line in dict.fromkeys(filter(None, (time_line(run, pairs[0]) for run in runs))):
            print(line)
    return 0


def _locate(args: argparse.Namespace, sides: Sequence[Side]) -> list[list[LocatedKernel]]:
    """The kernels of each side, from its run or from an inspection now."""
    from kernellab.record.reading import load

    to_inspect = [side for side in sides if side.run is None]
    inspected = None
    if to_inspect:
        archs = list(dict.fromkeys(side.arch for side in to_inspect if side.arch))
        inspected = inspect_op.inspect(args, list(dict.fromkeys(side.impl for side in to_inspect)), archs)
    located = []
    for side in sides:
        if side.run is not None:
            located.append(_matching(side, load(side.run), side.run))
        else:
            assert inspected is not None
            located.append(_matching(side, *inspected))
    return located


def _matching(side: Side, record: Record, folder: Path) -> list[LocatedKernel]:
    from kernellab.reporting.terminal.inspection import list_kernels

    matching = [(kernel, folder) for kernel in list_kernels(record) if side.matches(kernel)]
    if not matching:
        refuse_missing(side, list_kernels(record))
        reasons = dict.fromkeys(entry["reason"] for entry in record["code"] if side.impl in ("", entry["impl"]))
        reason = "; ".join(filter(None, reasons)) or "nothing was captured for it"
        raise UserError(f"--diff {side.text}: no machine code: {reason}")
    return matching


def refuse_missing(side: Side, kernels: list[InspectedKernel]) -> None:
    """A UserError where there is machine code, but not of this implementation, architecture or configuration."""
    candidates = [kernel for kernel in kernels if "cubin" in kernel["files"]]
    for noun, value, read in (
        ("implementation", side.impl, lambda kernel: kernel["impl"]),
        ("architecture", side.arch, lambda kernel: kernel["arch"]),
        ("configuration", side.number, _number),
    ):
        present = list(dict.fromkeys(map(read, candidates)))
        if present and value and value not in present:
            raise UserError(f"--diff {side.text}: no such {noun}: there {_enumerate(present)}")
        candidates = [kernel for kernel in candidates if not value or read(kernel) == value]


def _number(kernel: InspectedKernel) -> int:
    """Of a tuner's configurations, from 1."""
    return kernel["tuned"][0] + 1 if kernel["tuned"] else 1


def _enumerate(values: list[object]) -> str:
    if len(values) == 1:
        return f"is {values[0]}"
    return f"are {', '.join(map(str, values[:-1]))} and {values[-1]}"


def _pair(sides: Sequence[Side], located: list[list[LocatedKernel]]) -> list[tuple[LocatedKernel, LocatedKernel]]:
    """Pairs of kernels to compare. Several are paired by name, configuration and pass, and by what the sides share."""
    left, right = located
    if len(left) == len(right) == 1:
        return [(left[0], right[0])]
    same_impl = sides[0].impl == sides[1].impl
    same_arch = sides[0].arch == sides[1].arch

    def key(kernel: InspectedKernel) -> tuple[str, ...]:
        impl = (kernel["impl"], kernel["name"]) if same_impl else ()
        return (*impl, *((kernel["arch"],) if same_arch else ()), str(kernel["tuned"]), kernel["pass"])

    partners = {key(kernel): (kernel, folder) for kernel, folder in right}
    pairs = [(kernel, partners[key(kernel[0])]) for kernel in left if key(kernel[0]) in partners]
    if not pairs:
        counts = " and ".join(f"{len(kernels)} of {side.text}" for kernels, side in zip(located, sides, strict=True))
        raise UserError(f"--diff: the kernels cannot be paired, {counts}: name one of each, triton@sm_90#2")
    return pairs


def _is_same(left: LocatedKernel, right: LocatedKernel) -> bool:
    return len({(folder / kernel["files"]["cubin"]).resolve() for kernel, folder in (left, right)}) == 1


def _listing(side: Side, kernel: InspectedKernel, folder: Path) -> Listing:
    """Its name begins with the run's folder, if any: otherwise a kernel has the same name before and after an edit."""
    listing = inspect_op.listing_of(kernel, folder)
    if side.run is not None:
        listing.name = f"{side.run}:{listing.name}"
    return listing


def time_line(run: Path, pair: tuple[LocatedKernel, LocatedKernel]) -> str | None:
    """How long the two took, where a run has timed both: `time: triton 506.6 µs, cuda 506.5 µs`."""
    from kernellab.record import verdict
    from kernellab.record.reading import load
    from kernellab.reporting.text.numbers import duration

    record = verdict.derive(load(run))
    times = []
    for kernel, _ in pair:
        for result in record["results"]:
            time = result["derived"].get("time")
            same = (result["op"], result["impl"]) == (kernel["op"], kernel["impl"])
            if same and _without_device(result["case"]) == _without_device(kernel["case"]) and time:
                times.append((kernel["impl"], time["median_us"]))
    if len(times) != 2:
        return None
    (left, left_us), (right, right_us) = times
    change = 100 * (right_us - left_us) / left_us
    return f"time: {left} {duration(left_us)}, {right} {duration(right_us)} ({change:+.1f} %), in {run}"


def _without_device(case: Mapping[str, object] | None) -> dict[str, object]:
    return {key: value for key, value in (case or {}).items() if key != "device"}
