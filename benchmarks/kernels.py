"""Are the shipped kernels at the limit of memory, and not slower than anything else, in every cell of a grid?

    python benchmarks/kernels.py OUT [--sample 24] [--ops softmax,rope] [--minutes 8.5] [--seconds 0.15]
    python benchmarks/kernels.py OUT [--sample 24] --plan
    python benchmarks/kernels.py OUT [--sample 24] --page > table.md

A cell is an op at a size and a dtype, forward and backward. All implementations of a cell, those of Liger, FlagGems and
QuACK included, are checked and then timed interleaved, with a cold cache. The core grid is every op in bfloat16 at five
sizes. The sample is drawn from fp32, wider rows and the sizes of real models: `--sample 24` adds the first 24 cells of
an order that follows from SEED, so that a larger number continues the same sample.

Cells that are finished in OUT are not measured again, on whatever machine they ran. After `--minutes` the running
command is interrupted: its finished cells count, the others come first the next time. `--plan` measures nothing: it
says which cells are left and how long they will take. `--page` makes docs/results/kernels-h200.md.

Peer libraries must be importable: in the environment, or in folders of PYTHONPATH.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import math
import os
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))

from kernellab.base.errors import UserError
from kernellab.declaration.catalogue import catalogue
from kernellab.record.reading import load
from kernellab.record.verdict import derive
from kernellab.reporting.text import numbers as words

OURS = ("triton", "cuda")
OTHERS = ("torch", "compile")  # what PyTorch offers; peer libraries are added
APART = ("matmul",)  # limited by arithmetic: benchmarks/matmul.py
NORMS = ("layer_norm", "rms_norm", "add_rms_norm")
ROWWISE = ("softmax", "log_softmax")
# The ops whose kernels differ most from what others do come first; the rest follows by name.
RANK = ("softmax", "cross_entropy", *NORMS, "log_softmax", "rope", "swiglu", "geglu", "gelu", "silu", "square")
# So do the sizes at which kernels change: clusters or loops, many short rows, a row in one block.
SIZES = ((4096, 131072), (16384, 1024), (8192, 16384), (4096, 65536), (16384, 4096))
OPTIONS = {name: ["weight=true"] for name in NORMS} | {"layer_norm": ["weight=true", "bias=true"]}
# Liger computes the gradient of cross-entropy in forward: only both passes together can be compared with it.
PASSES = {"cross_entropy": ("forward", "backward", "both")}

SEED = 15
HIDDEN, VOCABULARIES, TOKENS = (2048, 4096, 5120, 8192, 12288), (32000, 50257, 128256, 152064), (1024, 8192, 32768)
# Beyond this the oracle is computed in slices of rows, which the mean over all rows does not allow.
MOST_FOR_A_MEAN = 1_000_000_000  # elements

NOT_SLOWER = 0.99
LARGE = 512e6  # bytes that a cell moves, from which on it has to reach a share of copy bandwidth
LEAST_SHARE = 0.95
LEAST_SHARES = {("cross_entropy", "forward"): 0.91, ("cross_entropy", "backward"): 0.91, ("gelu", "forward"): 0.98}
LEAST_SHARES |= {(name, "backward"): 0.85 for name in NORMS}
NO_SHARE = {(name, "backward") for name in ROWWISE} | {("cross_entropy", "both")}
LEAST_RATIOS = {("layer_norm", "backward"): 1.3, ("rms_norm", "backward"): 1.3}
LEAST_GBPS = {("cross_entropy", "forward", 4096, 131072): 3900}

# Seconds that --plan assumes until commands have been timed: to start a worker, import the libraries and compile for
# the first time (docs/results/overhead-h200.md); per pass of a cell, to compile, check and time eight implementations.
START_S, PASS_S = 20.0, 11.0
_LEAST_LEFT_S = 40.0  # with less time left no command is begun
_INTERRUPT_S = 30.0  # for a command to end after it was interrupted

EXPLANATION = """
Medians with a cold cache. *Of copy* and GB/s are those of the better of cuda and triton, *ours* is its speed over that
of the best other. Bold: the fastest. Why an implementation has no time is said below the tables.
""".strip()

Result = dict[str, Any]


@dataclass(frozen=True)
class Cell:
    op: str
    rows: int
    cols: int
    dtype: str = "bfloat16"

    @property
    def size(self) -> str:
        return f"{self.rows}×{self.cols}"

    @property
    def passes(self) -> tuple[str, ...]:
        return PASSES.get(self.op, ("forward", "backward"))

    @property
    def options(self) -> list[str]:
        if self.op == "cross_entropy" and self.rows * self.cols > MOST_FOR_A_MEAN:
            return ["reduction=sum"]
        return OPTIONS.get(self.op, [])

    @property
    def shape(self) -> str:
        """Heads of rope are 128 columns wide, and four queries share a key."""
        if self.op != "rope":
            return f"{self.rows}x{self.cols}"
        positions, heads = min(self.rows, 4096), self.cols // 128
        return f"{self.rows // positions}x{heads}x{positions}x128x{max(1, heads // 4)}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--sample", type=int, default=0, metavar="N", help="also the first N cells of the sample")
    parser.add_argument("--ops", help="only these, separated by commas")
    parser.add_argument("--minutes", type=float, default=8.5, help="after which the running command is interrupted")
    parser.add_argument("--seconds", default="0.15", help="of timing for each implementation and pass")
    parser.add_argument("--plan", action="store_true", help="what is left to measure, and how long that takes")
    parser.add_argument("--page", action="store_true", help="the tables, from the records in OUT")
    args = parser.parse_args()
    args.out = args.out.resolve()
    impls = kernels_of_ops()
    chosen = args.ops.split(",") if args.ops else list(impls)
    parts = core_cells(impls), sample_cells(impls)[: args.sample]
    core, sample = ([cell for cell in part if cell.op in chosen] for part in parts)
    if args.page:
        print(page(args.out, [*core, *sample]))
        return
    finished = finished_cells(args.out)
    commands = [*plan(core, finished), *plan(sample, finished)]
    print(describe_plan(commands, args.out), flush=True)
    if not args.plan:
        args.out.mkdir(parents=True, exist_ok=True)
        run(commands, args.out, impls, args.seconds, time.monotonic() + 60 * args.minutes)


# The grid ----------------------------------------------------------------------------------------------


def kernels_of_ops() -> dict[str, list[str]]:
    """The implementations to compare, by op: of every op with hand-written kernels, in the order of their rank."""
    ops = {e.name: e.impls for e in catalogue() if set(OURS) <= e.impls.keys() and e.name not in APART}
    ranked = sorted(ops, key=lambda name: (RANK.index(name) if name in RANK else len(RANK), name))
    return {name: [impl for impl in (*OTHERS, *OURS) if impl in ops[name]] for name in ranked}


def core_cells(ops: Iterable[str]) -> list[Cell]:
    return [Cell(op, *size) for op in ops for size in SIZES]


def sample_cells(ops: Iterable[str]) -> list[Cell]:
    """All cells that a sample is drawn from, in random order. An op that is added changes no other cell's place."""
    cells = []
    for op in ops:
        cells += [Cell(op, *size, "float32") for size in SIZES]
        widths = VOCABULARIES if op == "cross_entropy" else (*HIDDEN, *(VOCABULARIES if op in ROWWISE else ()))
        real = itertools.product(TOKENS, widths)
        cells += [Cell(op, *size, dtype) for size in [(1024, 262144), *real] for dtype in ("bfloat16", "float32")]
    cells = [cell for cell in cells if cell not in core_cells(ops)]
    return sorted(
        cells, key=lambda cell: hashlib.sha256(f"{SEED} {cell.op} {cell.size} {cell.dtype}".encode()).digest()
    )


def finished_cells(out: Path) -> dict[Cell, tuple[dict[str, Any], list[Result]]]:
    """Every cell that some run in OUT has finished: the last such record with its verdicts, and the cell's results."""
    found = {}
    ceilings = _measured_ceilings(out)
    for folder in _numbered(out, "run"):
        record = load(folder)
        # Ceilings that were doubtful are in the record of their own run only.
        record["machine"]["ceilings"] = record["machine"].get("ceilings") or ceilings.get(record["machine"].get("name"))
        record = derive(record)
        for spent in record["spent"]:  # written when a case is finished
            results = [r for r in record["results"] if (r["op"], r["case"]) == (spent["op"], spent["case"])]
            found[_cell_of(spent["op"], spent["case"])] = record, results
    return found


def _measured_ceilings(out: Path) -> dict[str, Any]:
    """By machine."""
    machines = [load(folder)["machine"] for folder in _numbered(out, "ceilings")]
    return {machine["name"]: machine["ceilings"] for machine in machines if machine.get("ceilings")}


def _numbered(out: Path, kind: str) -> list[Path]:
    """The runs of a kind, in the order in which they began."""
    return sorted((path.parent for path in out.glob(f"{kind}-*/journal.jsonl")), key=_number)


def _number(folder: Path) -> int:
    return int(folder.name.rpartition("-")[2])


def _next(out: Path, kind: str) -> Path:
    return out / f"{kind}-{1 + max(map(_number, _numbered(out, kind)), default=0)}"


def _cell_of(op: str, case: dict[str, Any]) -> Cell:
    dims = case["dims"]
    if op == "rope":
        return Cell(op, dims["B"] * dims["S"], dims["H"] * dims["D"], case["dtype"])
    rows, cols = dims.values()
    return Cell(op, math.prod(rows) if isinstance(rows, list) else rows, cols, case["dtype"])


# Running -----------------------------------------------------------------------------------------------


def plan(cells: list[Cell], finished: Iterable[Cell]) -> list[list[Cell]]:
    """The cells that are left, those of one command together: a worker starts once for them."""
    left: dict[tuple[object, ...], list[Cell]] = defaultdict(list)
    for cell in cells:
        if cell not in finished:
            left[cell.op, cell.dtype, *cell.options].append(cell)
    return list(left.values())


def describe_plan(commands: list[list[Cell]], out: Path) -> str:
    lines = []
    for cells in commands:
        label = " ".join((cells[0].op, cells[0].dtype, *cells[0].options))
        lines.append(f"{label}: {', '.join(cell.size for cell in cells)}")
    expected_s = sum(START_S + PASS_S * _passes(cells) for cells in commands)
    basis = f"{START_S:g} s per command and {PASS_S:g} s per pass of a cell"
    taken = [json.loads(line) for line in _log(out).read_text().splitlines()] if _log(out).exists() else []
    if passes := sum(entry["passes"] for entry in taken):
        per_pass_s = sum(entry["seconds"] for entry in taken) / passes
        expected_s = per_pass_s * sum(map(_passes, commands))
        basis = f"{per_pass_s:.1f} s per pass of a cell, as until now"
    left = sum(map(len, commands))
    return "\n".join([*lines, f"{left} cells are left: about {expected_s / 60:.0f} minutes, at {basis}"])


def _passes(cells: list[Cell]) -> int:
    return sum(len(cell.passes) for cell in cells)


def _log(out: Path) -> Path:
    return out / "commands.jsonl"


def run(commands: list[list[Cell]], out: Path, impls: dict[str, list[str]], seconds: str, end: float) -> None:
    if commands:
        _measure_ceilings(out)
    for cells in commands:
        if time.monotonic() > end - _LEAST_LEFT_S:
            return
        began = time.monotonic()
        folder, first = _next(out, "run"), cells[0]
        command = [first.op, "--shape", ",".join(cell.shape for cell in cells), "--dtype", first.dtype]
        command += ["--impl", ",".join(impls[first.op]), "--peers", "--pass", ",".join(first.passes)]
        command += [word for option in first.options for word in ("--opt", option)]
        code = _klab(["bench", *command, "--seconds", seconds, "--only-times"], folder, end)
        finished = finished_cells(out)
        done = [cell for cell in cells if cell in finished]
        taken = {"passes": _passes(done), "seconds": round(time.monotonic() - began, 1)}
        with _log(out).open("a") as file:
            file.write(json.dumps({"run": folder.name, **taken}) + "\n")
        sizes = ", ".join(cell.size for cell in done) or "nothing finished"
        print(f"{folder.name}: {first.op} {first.dtype}: {sizes}; exit code {code}, {taken['seconds']} s", flush=True)


def _measure_ceilings(out: Path) -> None:
    """The commands that follow leave this out. What is known of this machine already is not measured again."""
    command = ["bench", "square", "--shape", "64x64", "--impl", "torch", "--seconds", "0.05"]
    _klab(command, _next(out, "ceilings"), math.inf)


def _klab(command: list[str], folder: Path, end: float) -> int:
    """Run klab, and interrupt it at the end. It keeps what is finished then."""
    path = os.pathsep.join([str(ROOT / "src"), *filter(None, [os.environ.get("PYTHONPATH")])])
    command = [sys.executable, "-m", "kernellab", *command, "--out", str(folder)]
    with folder.with_suffix(".txt").open("w") as output:
        # In this repository: the record states its commit.
        process = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": path}, stdout=output, cwd=ROOT)
        try:
            return process.wait(None if end == math.inf else max(0.0, end - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGINT)
        try:
            return process.wait(_INTERRUPT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            return process.wait()


# The page ----------------------------------------------------------------------------------------------


def page(out: Path, cells: list[Cell]) -> str:
    finished = finished_cells(out)
    tables: dict[tuple[str, str], list[list[str]]] = defaultdict(list)
    missed, absent = Missed(), defaultdict(list)
    impls = defaultdict(set)
    for cell, (_, results) in finished.items():
        impls[cell.op] |= {result["impl"] for result in results}
    columns = {op: sorted(names, key=_column) for op, names in impls.items()}
    for cell in cells:
        if cell not in finished:
            missed.add(cell, "", "not measured yet")
            continue
        for pass_name in cell.passes:
            verdict = CellVerdict(cell, pass_name, finished[cell][1])
            tables[cell.op, pass_name].append(verdict.row(columns[cell.op]))
            for reason in verdict.misses():
                missed.add(cell, pass_name, reason)
            for impl, reason in verdict.absent.items():
                absent[cell.op, pass_name, impl, reason].append(f"{cell.size} {cell.dtype}")
    lines = _stamp([finished[cell][0] for cell in cells if cell in finished])
    count = sum(cell in finished for cell in cells)
    lines += ["", f"{count} of {len(cells)} cells are measured; {missed.count} promises are missed.", ""]
    lines += ["## Missed", "", *(missed.lines() or ["Nothing."]), "", "## Every figure", ""]
    lines += [EXPLANATION, ""]
    for (op, pass_name), rows in tables.items():
        head = ["size", "dtype", "of copy", "GB/s", "ours", *columns[op]]
        lines += [f"### {op}, {pass_name}", "", _line(head), "|" + "---|" * len(head), *map(_line, rows), ""]
    lines += ["## Without a time", ""]
    for (op, pass_name, impl, reason), where in absent.items():
        lines.append(f"- {impl}, {op} {pass_name}, {', '.join(where)}: {reason}")
    return "\n".join(lines)


def _stamp(records: list[dict[str, Any]]) -> list[str]:
    """Machine, date, versions and commits of all records."""
    dates = sorted({record["began"][:10] for record in records})
    machines = sorted({record["machine"].get("class", "") for record in records})
    packages = [record["environment"]["packages"] for record in records]
    versions = sorted({f"{name} {version}" for found in packages for name, version in found.items() if version})
    libraries = [peer for record in records for peer in record["peers"].values()]
    peers = sorted({f"{peer['package']} {peer['version']}" for peer in libraries if peer["version"]})
    missing = sorted({peer["package"] for peer in libraries if peer["problem"]})
    copies = [ceilings["copy_gbps"] for record in records if (ceilings := record["machine"].get("ceilings"))]
    measured = f"{min(copies):.0f}–{max(copies):.0f} GB/s" if copies else "not measured"
    return [
        f"- machine: {'; '.join(machines)}; copy bandwidth {measured}",
        f"- date: {', '.join(dates)}",
        f"- versions: {', '.join(versions)}; peers: {', '.join(peers) or 'none'}"
        + (f"; not installed in some runs: {', '.join(missing)}" if missing else ""),
        f"- commits: {', '.join(sorted({record['environment']['commit'] or 'unknown' for record in records}))}",
        f"- script: `benchmarks/kernels.py`; the seed of the sample is {SEED}",
    ]


def _column(impl: str) -> tuple[int, str]:
    order = (*reversed(OURS), *OTHERS)
    return (order.index(impl) if impl in order else len(order), impl)


def _line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"


class CellVerdict:
    """One pass of a cell: the times of its implementations, and what it misses."""

    def __init__(self, cell: Cell, pass_name: str, results: list[Result]) -> None:
        self.cell, self.pass_name = cell, pass_name
        self.absent: dict[str, str] = {}
        self._passes: dict[str, Result] = {}
        for result in results:
            found = result["derived"]["passes"].get(pass_name)
            in_forward = pass_name == "backward" and any(guard["name"] == "pass" for guard in result["guards"])
            if in_forward:
                self.absent[result["impl"]] = "computes its gradients in the forward pass"
            elif found and found["time"]:
                self._passes[result["impl"]] = found
            else:
                self.absent[result["impl"]] = _why_absent(result, pass_name)
        self.times = {impl: found["time"]["median_us"] for impl, found in self._passes.items()}
        self.ours = self._fastest(impl in OURS for impl in self.times)
        self.other = self._fastest(impl not in OURS for impl in self.times)
        self.ratio = self.times[self.other] / self.times[self.ours] if self.ours and self.other else None

    def _fastest(self, chosen: Iterable[bool]) -> str | None:
        return min(itertools.compress(self.times, chosen), key=self.times.__getitem__, default=None)

    @property
    def _limit(self) -> dict[str, Any]:
        return (self._passes[self.ours]["limit"] or {}) if self.ours else {}

    def row(self, impls: list[str]) -> list[str]:
        share, gbps = self._limit.get("fraction"), self._limit.get("gbps")
        summary = [f"{share:.3f}" if share else "–", f"{gbps:.0f}" if gbps else "–"]
        fastest = min(self.times, key=self.times.__getitem__, default=None)
        times = [words.duration(self.times[impl]) if impl in self.times else "–" for impl in impls]
        times = [f"**{text}**" if impl == fastest else text for impl, text in zip(impls, times, strict=True)]
        return [self.cell.size, self.cell.dtype, *summary, f"{self.ratio:.2f}×" if self.ratio else "–", *times]

    def misses(self) -> list[str]:
        """Each promise that is missed, with the figures."""
        if self.ours is None:
            return ["no kernel of ours has a time"]
        found = [f"{impl}: {reason}" for impl, reason in self.absent.items() if impl in OURS]
        key = self.cell.op, self.pass_name
        least_ratio = LEAST_RATIOS.get(key, NOT_SLOWER) if self.cell.dtype == "bfloat16" else NOT_SLOWER
        if self.ratio is not None and self.ratio < least_ratio:
            found.append(f"{self.ratio:.3f} of {self.other}'s speed, {least_ratio} promised")
        share, least_share = self._limit.get("fraction"), LEAST_SHARES.get(key, LEAST_SHARE)
        if share and self._limit["bytes"] > LARGE and share < least_share and key not in NO_SHARE:
            found.append(f"{share:.3f} of copy, {least_share} promised")
        least_gbps = LEAST_GBPS.get((*key, self.cell.rows, self.cell.cols), 0)
        if self._limit.get("gbps", 0) < least_gbps and self.cell.dtype == "bfloat16":
            found.append(f"{self._limit['gbps']:.0f} GB/s, {least_gbps} promised")
        return found


def _why_absent(result: Result, pass_name: str) -> str:
    """Why an implementation has no time: the first of its checks that is not right, or what its timing says."""
    derived = result["derived"]
    for check in (result["check"], result["gradients"] if pass_name != "forward" else None):
        if check is not None and check["status"] not in ("ok", "imprecise"):
            return f"{check['status']}: {check['reason']}" if check["status"] != "skipped" else str(check["reason"])
    if derived["status"] in ("ok", "imprecise"):
        return str(derived["timing"]["reason"])
    return f"{derived['status']}: {derived['reason']}"


class Missed:
    """What is missed where; cells that miss the same are one line."""

    def __init__(self) -> None:
        self._cells: dict[tuple[str, str, str], list[str]] = defaultdict(list)
        self.count = 0

    def add(self, cell: Cell, pass_name: str, reason: str) -> None:
        self._cells[cell.op, pass_name, reason].append(f"{cell.size} {cell.dtype}")
        self.count += reason != "not measured yet"

    def lines(self) -> list[str]:
        entries = self._cells.items()
        return [f"- {' '.join(filter(None, where[:2]))}, {', '.join(cells)}: {where[2]}" for where, cells in entries]


if __name__ == "__main__":
    try:
        main()
    except UserError as error:
        sys.exit(error.message)
