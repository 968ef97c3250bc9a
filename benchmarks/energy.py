"""Is the energy of a call resolved? Products of random numbers and of zeros, and equal products, in runs of their own.

    python benchmarks/energy.py OUT [--runs 20] [--limit 540] [--device cpu]
    python benchmarks/energy.py OUT --page > docs/results/energy-h200.md

A run is `klab bench --energy` of benchmarks/energy_op.py: a bfloat16 product of 8192×8192 random numbers, the same
again, and one of zeros. The first goal is that the product of zeros is found to take less energy in every run, the
second that the equal products are never called different. Five runs share a process, so there are four processes.

Processes that are finished in OUT are not started again, and none is begun after `--limit` seconds: long measurements
can be made in several goes. Exit code 0: all runs are there and both goals are met; 1: a goal is missed; 3: runs are
missing, or the energy cannot be measured here.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))

from kernellab.energy.verdicts import compare_energy, energy_of
from kernellab.machine.environment import gpus
from kernellab.record.reading import load
from kernellab.record.schema import Record, Result, TimeSeries
from kernellab.reporting.text import numbers

OP = ROOT / "benchmarks" / "energy_op.py"
RANDOM, AGAIN, ZEROS = "random", "random-again", "zeros"
RUNS_PER_PROCESS, FIRST_SIZE = 5, 1001
SECONDS = 0.3  # of rounds per implementation, which are not what is measured here


@dataclass(frozen=True)
class Run:
    """The energies of one run, and what the verdicts on them are."""

    series: dict[str, TimeSeries]

    @property
    def zeros(self) -> dict:
        return compare_energy(self.series[ZEROS]["energy"], self.series[RANDOM]["energy"], RANDOM)

    @property
    def equal(self) -> dict:
        return compare_energy(self.series[AGAIN]["energy"], self.series[RANDOM]["energy"], RANDOM)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--limit", type=float, default=540.0, help="begin no process after this many seconds")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cuda" if gpus() else "cpu")
    parser.add_argument("--page", action="store_true", help="print the page of what is there, and measure nothing")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    if not args.page:
        measure(args)
    records = [load(folder) for folder in sorted(args.out.glob("process-*")) if is_complete(folder)]
    runs, reasons = read_runs(records)
    if args.page:
        print(page(records, runs))
        return 0
    print("\n".join(summary(runs, args.runs)))
    for reason, count in reasons.items():
        print(f"{count} energies were not measured: {reason}")
    if len(runs) < args.runs:
        return 3
    return 0 if goals_are_met(runs) else 1


def measure(args: argparse.Namespace) -> None:
    """Start the processes that OUT lacks, until the time is up."""
    began = time.monotonic()
    sizes = list(range(FIRST_SIZE, FIRST_SIZE + args.runs))
    for at in range(0, len(sizes), RUNS_PER_PROCESS):
        folder = (args.out / f"process-{at // RUNS_PER_PROCESS + 1}").resolve()
        if is_complete(folder):
            continue
        if time.monotonic() - began > args.limit:
            print("the time is up: the same command goes on", file=sys.stderr)
            return
        shutil.rmtree(folder, ignore_errors=True)  # of a process that was killed
        wanted = ",".join(map(str, sizes[at : at + RUNS_PER_PROCESS]))
        impls = ",".join((RANDOM, AGAIN, ZEROS))
        options = ("--impl", impls, "--R", wanted, "--device", args.device, "--seconds", str(SECONDS))
        command = [sys.executable, "-m", "kernellab", "bench", str(OP), *options]
        command += ["--only-times", "--energy", "--out", str(folder)]
        paths = filter(None, [str(ROOT / "src"), os.environ.get("PYTHONPATH")])
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "KERNELLAB_REPORT": "0"}
        with (args.out / "klab.log").open("a") as log:
            code = subprocess.run(command, stdout=log, stderr=subprocess.STDOUT, cwd=ROOT, env=env).returncode
        print(f"{folder.name}: {time.monotonic() - began:.0f} s, exit code {code}", file=sys.stderr)


def is_complete(folder: Path) -> bool:
    return (folder / "run.json").exists() and load(folder)["complete"]


def read_runs(records: Sequence[Record]) -> tuple[list[Run], Counter[str]]:
    """The runs in which all energies were measured, and why others were not."""
    cases: dict[str, list[Result]] = {}
    for number, record in enumerate(records):
        for result in record["results"]:
            cases.setdefault(f"{number} {json.dumps(result['case'])}", []).append(result)
    runs, reasons = [], Counter()
    for results in cases.values():
        series = {r["impl"]: s for r in results for s in r["times"] if s.get("energy")}
        missing = [s["energy"]["reason"] for s in series.values() if not s["energy"]["joules"]]
        reasons.update(missing)
        if len(series) == 3 and not missing:
            runs.append(Run(series))
    return runs, reasons


def goals_are_met(runs: Sequence[Run]) -> bool:
    return all(run.zeros["verdict"] == "less" and run.equal["verdict"] not in ("less", "more") for run in runs)


def summary(runs: Sequence[Run], wanted: int) -> list[str]:
    zeros, equal = (Counter(getattr(run, name)["verdict"] for run in runs) for name in ("zeros", "equal"))
    lines = [
        f"{len(runs)} of {wanted} runs",
        f"zeros against random numbers: less energy in {zeros['less']}, more in {zeros['more']}, the same in "
        f"{zeros['same']}, not resolved in {zeros['not resolved']}",
        f"equal products: different in {equal['less'] + equal['more']}, the same in {equal['same']}, not resolved in "
        f"{equal['not resolved']}",
    ]
    if runs:
        lines += [*counter_lines(runs), *energy_lines(runs)]
    return lines


def counter_lines(runs: Sequence[Run]) -> list[str]:
    """How the counter behaved."""
    energies = [series["energy"] for run in runs for series in run.series.values()]
    steps, leads, idle = ([energy[key] for energy in energies] for key in ("step_s", "lead_s", "idle_w"))
    worst = max(value for energy in energies for value in energy["resolution"])
    seconds = [value for energy in energies for value in energy["seconds"]]
    return [
        f"the counter moves every {1e3 * min(steps):.1f} to {1e3 * max(steps):.1f} ms, follows the power in "
        f"{min(leads):.2f} to {max(leads):.2f} s, and counts {min(idle):.0f} to {max(idle):.0f} W without work",
        f"blocks took {min(seconds):.2f} to {max(seconds):.2f} s, and the steps leave {100 * worst:.2f} % uncertain",
    ]


def energy_lines(runs: Sequence[Run]) -> list[str]:
    lines = []
    for impl in (RANDOM, AGAIN, ZEROS):
        verdicts = [energy_of(run.series[impl]["energy"]) for run in runs]
        joules, us, watts = (statistics.median(v[key] for v in verdicts) for key in ("median_j", "us", "watts"))
        half = statistics.median((v["high_j"] - v["low_j"]) / 2 / v["median_j"] for v in verdicts)
        clocks = [v["clock_mhz"] for v in verdicts if v["clock_mhz"]]
        clock = f", {statistics.median(clocks):.0f} MHz" if clocks else ""
        lines.append(
            f"{impl}: {numbers.energy(joules)} a call, interval ±{100 * half:.2f} %, {numbers.duration(us)}, "
            f"{watts:.0f} W{clock}"
        )
    return lines


# The page ----------------------------------------------------------------------------------------------


def page(records: Sequence[Record], runs: Sequence[Run]) -> str:
    record = records[0]
    environment, machine = record["environment"], record["machine"]
    packages = environment["packages"]
    versions = ", ".join(f"{name} {packages[name]}" for name in ("torch", "kernellab") if packages.get(name))
    lines = [
        "# Energy of a call on an H200",
        "",
        f"- machine: {machine['class']}",
        f"- date: {(record.get('began') or '')[:10]}",
        f"- versions: Python {environment['python']}, {versions}",
        "- script: `benchmarks/energy.py`",
        "",
        "A bfloat16 product of 8192×8192 matrices, of random numbers, of the same random numbers again, and of zeros,",
        f"by `klab bench --energy`; {len(runs)} runs, five in a process. [How it is measured](../timing.md#energy).",
        "",
        *(f"- {line}" for line in summary(runs, len(runs))[1:]),
        "",
        "| run | zeros relative to random | | random again relative to random | |",
        "|---:|---|---|---|---|",
    ]
    for number, run in enumerate(runs, 1):
        cells = " | ".join(
            f"{ratio['median']:.4f} ({ratio['low']:.4f}–{ratio['high']:.4f}) | {ratio['verdict']}"
            for ratio in (run.zeros, run.equal)
        )
        lines.append(f"| {number} | {cells} |")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
