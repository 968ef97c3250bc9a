"""Are linear_gelu and linear_cross_entropy faster than cuBLAS with what PyTorch has beside it, and in less memory?

    python benchmarks/linear.py OUT [--minutes 25] [--quick-check] [--page docs/results/linear-h200.md]
    python benchmarks/linear.py OUT --tune [--minutes 10]
    python benchmarks/linear.py OUT --plan

Goals, in bfloat16 on one H200:

- linear_gelu, forward: at least 1.05 times as fast as cuBLAS followed by the best separate kernel for GeLU, at two
  sizes of a transformer. cuBLASLt's own epilogue and torch.compile stand in the same table.
- linear_cross_entropy, forward and backward, of 8192 tokens × 4096 × 128256: not slower than cuBLAS and cross-entropy
  with all logits in memory, and in under a quarter of their memory.

Steps: both ops are checked by their batteries, then timed; each step is one command of klab. Steps that OUT has are not
run again; one that was interrupted is. After `--minutes` the running command is interrupted. At the end the script
prints the tables, and writes them to `--page`. `--tune` times the candidates of benchmarks/linear_tiles.py instead, the
fastest first: the tables TILES of ops/linear_gelu/triton.py and ops/linear_cross_entropy/triton.py, and MOST_CHUNKS,
should name these.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))

from kernellab.record.reading import load
from kernellab.record.verdict import derive
from kernellab.reporting.text import numbers as words
from kernellab.stats.intervals import by_round, median_interval, paired_ratios

OPS, TILES = "benchmarks/linear_ops.py", "benchmarks/linear_tiles.py"
# Tokens × hidden × inner of the first layer of an MLP: GPT-2 medium, Llama-like 1B and 8B, and a small one.
GELU_SIZES = ("16384x1024x4096", "8192x2048x8192", "8192x4096x16384", "8192x768x3072")
LOSS_SIZES = ("8192x4096x128256", "8192x2048x32000")
SEPARATE = ("torch", "separate-triton", "separate-cuda")
GELU_GOAL, SIZES_THAT_REACH_IT = 1.05, 2
LOSS_GOAL, MEMORY_GOAL = 1.0, 0.25
_INTERRUPT_S, _LEAST_LEFT_S = 30.0, 30.0

Result = dict[str, Any]


@dataclass(frozen=True)
class Step:
    name: str
    command: tuple[str, ...]

    @property
    def is_timing(self) -> bool:
        return self.command[0] == "bench"


def steps(*, quick_check: bool) -> list[Step]:
    check = ("--timeout", "300", *(["--quick"] if quick_check else []))
    bias = ("--opt", "bias=true", "--opt", "approximate=tanh")
    timing = ("--dtype", "bfloat16", "--timeout", "600", "--seconds", "1")
    gelu = ("bench", f"{OPS}:linear_gelu", "--shape", ",".join(GELU_SIZES), *bias, *timing)
    loss = ("bench", f"{OPS}:linear_cross_entropy", "--shape", ",".join(LOSS_SIZES), *timing)
    loss_impls = "torch,torch-chunked,compile,triton,triton-recompute"
    separate = ",".join(SEPARATE)
    return [
        Step("check-gelu", ("check", "linear_gelu", "--impl", "torch,torch-epilogue,triton", *check)),
        Step("check-loss", ("check", "linear_cross_entropy", "--impl", "torch,triton,triton-recompute", *check)),
        Step("gelu", (*gelu, "--impl", f"{separate},torch-epilogue,compile,compile-max-autotune,triton")),
        Step("loss", (*loss, "--impl", loss_impls, "--pass", "both,forward")),
        Step("gelu-training", (*gelu, "--impl", f"{separate},compile,triton", "--pass", "both,backward")),
    ]


def tuning_steps() -> list[Step]:
    timing = ("--dtype", "bfloat16", "--timeout", "300", "--seconds", "0.3", "--only-times")
    bias = ("--opt", "bias=true", "--opt", "approximate=tanh")
    gelu, loss = f"{TILES}:linear_gelu", f"{TILES}:linear_cross_entropy"
    sizes = ",".join(GELU_SIZES[:3])
    return [
        Step("tune-gelu", ("bench", gelu, "--shape", sizes, *bias, *timing, "--impl", "torch,triton-*x*")),
        Step("tune-loss", ("bench", loss, "--shape", LOSS_SIZES[0], *timing, "--impl", "torch,triton-*x*")),
        Step(
            "tune-chunks",
            ("bench", loss, "--shape", LOSS_SIZES[0], *timing, "--impl", "torch,triton-*-chunks", "--pass", "both"),
        ),
        Step("tune-slope", ("bench", f"{TILES}:slope", *timing)),
        Step("tune-converted", ("bench", f"{TILES}:converted", *timing)),
    ]


# Running -----------------------------------------------------------------------------------------------


def is_done(out: Path, step: Step) -> bool:
    return (out / step.name / "exit-code").exists()


def run_step(out: Path, step: Step, end: float) -> None:
    """Run klab, and interrupt it at the end: it keeps what is finished, and continues the next time."""
    folder = out / step.name
    begun = (folder / "run" / "journal.jsonl").exists()
    folder.mkdir(parents=True, exist_ok=True)
    place = ("--resume" if begun else "--out", str(folder / "run"))
    command = [sys.executable, "-m", "kernellab", *step.command, *place]
    path = os.pathsep.join([str(ROOT / "src"), *filter(None, [os.environ.get("PYTHONPATH")])])
    began = time.monotonic()
    with (folder / "output.txt").open("a") as output:
        # In this repository: the record states its commit.
        process = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": path}, stdout=output, cwd=ROOT)
        try:
            code = process.wait(max(0.0, end - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(_INTERRUPT_S)
            except subprocess.TimeoutExpired:
                process.kill()
            code = None
    if code in (0, 1, 3):  # it has verdicts, good or bad
        (folder / "exit-code").write_text(str(code))
    state = f"exit code {code}" if code is not None else "interrupted"
    print(f"{step.name}: {state}, {time.monotonic() - began:.0f} s", flush=True)


# Reading -----------------------------------------------------------------------------------------------


class Timed:
    """One size and pass of a run: medians, paired ratios and peak memory of its implementations."""

    def __init__(self, size: str, pass_name: str, results: list[Result]) -> None:
        self.size, self.pass_name = size, pass_name
        self.times: dict[str, float] = {}
        self.bytes: dict[str, int] = {}
        self.absent: dict[str, str] = {}
        self._rounds: dict[str, dict[int, float]] = {}
        for result in results:
            impl, derived = result["impl"], result["derived"]
            found = derived["passes"].get(pass_name)
            if not found or not found["time"]:
                timing = derived["timing"] or {}
                self.absent[impl] = str(derived["reason"] or timing.get("reason") or derived["status"])
                continue
            self.times[impl] = found["time"]["median_us"]
            series = next(s for s in result["times"] if s["pass"] == pass_name and s["status"] == "ok")
            self._rounds[impl] = by_round(series["samples_us"], series["rounds"])
            memory = result["memory"].get(pass_name, {})
            self.bytes[impl] = memory.get("allocated_bytes") or memory.get("resident_bytes") or 0

    def best(self, impls: tuple[str, ...]) -> str | None:
        return min((impl for impl in impls if impl in self.times), key=self.times.__getitem__, default=None)

    def speedup(self, impl: str, over: str | None) -> tuple[float, float] | None:
        """The 99 % interval of how many times as fast, from rounds that both were timed in."""
        if impl not in self.times or over is None:
            return None
        ratios = paired_ratios(self._rounds[impl], self._rounds[over])
        return median_interval(ratios) if ratios else None


def timed(folder: Path, passes: tuple[str, ...]) -> Iterator[Timed]:
    results = derive(load(folder))["results"]
    by_case: dict[str, list[Result]] = {}
    for result in results:
        by_case.setdefault(words.size(result["case"]), []).append(result)
    for pass_name in passes:
        for size, of_case in by_case.items():
            yield Timed(size, pass_name, of_case)


# The page ----------------------------------------------------------------------------------------------


def page(out: Path) -> tuple[str, list[str]]:
    """The tables as Markdown, and what misses its goal."""
    missed: list[str] = []
    lines = ["# linear_gelu and linear_cross_entropy", ""]
    lines += [*_stamp(out), ""]
    for title, step, passes in (
        ("linear_gelu, forward", "gelu", ("forward",)),
        ("linear_gelu, training", "gelu-training", ("both", "backward")),
    ):
        if (out / step / "exit-code").exists():
            found = list(timed(out / step / "run", passes))
            lines += [f"## {title}", "", *_gelu_table(found), ""]
            if step == "gelu":
                missed += _gelu_misses(found)
        else:
            missed.append(f"{step} is not measured yet")
    if (out / "loss" / "exit-code").exists():
        found = list(timed(out / "loss" / "run", ("both", "forward")))
        lines += ["## linear_cross_entropy", "", *_loss_table(found), ""]
        missed += _loss_misses(found)
    else:
        missed.append("loss is not measured yet")
    for name in ("check-gelu", "check-loss"):
        code = out / name / "exit-code"
        if not code.exists():
            missed.append(f"{name} has not run")
        elif code.read_text() != "0":
            missed.append(f"{name}: exit code {code.read_text()}, see {name}/output.txt")
    lines += ["## Goals", "", *([f"- missed: {line}" for line in missed] or ["All are reached."])]
    return "\n".join(lines) + "\n", missed


def _stamp(out: Path) -> list[str]:
    records = [load(path.parent) for path in sorted(out.glob("*/run/journal.jsonl"))]
    if not records:
        return []
    machines = sorted({record["machine"].get("class", "") for record in records})
    packages = [record["environment"]["packages"] for record in records]
    versions = sorted({f"{name} {version}" for found in packages for name, version in found.items() if version})
    return [
        f"- machine: {'; '.join(machines)}",
        f"- date: {', '.join(sorted({record['began'][:10] for record in records}))}",
        f"- versions: {', '.join(versions)}",
        f"- commits: {', '.join(sorted({record['environment']['commit'] or 'unknown' for record in records}))}",
        "- script: `benchmarks/linear.py`; medians over interleaved rounds, cold cache, bfloat16; in brackets the 99 % "
        "interval from paired rounds",
    ]


def _gelu_table(found: list[Timed]) -> Iterator[str]:
    impls = list(dict.fromkeys(impl for each in found for impl in (*each.times, *each.absent)))
    head = ["tokens × in × out", "pass", *impls, "triton over the best separate"]
    yield from _head(head)
    for each in found:
        cells = [words.duration(each.times[impl]) if impl in each.times else "–" for impl in impls]
        separate = each.best(SEPARATE)
        ratio = _interval(each.speedup("triton", separate), separate)
        yield _line([each.size, each.pass_name, *cells, ratio])
    yield from _absent(found)


def _loss_table(found: list[Timed]) -> Iterator[str]:
    yield from _head(
        ["tokens × hidden × vocabulary", "pass", "impl", "time", "over torch", "peak memory", "of torch's"]
    )
    for each in found:
        for impl, median_us in each.times.items():
            share = each.bytes[impl] / each.bytes["torch"] if each.bytes.get("torch") else None
            ratio = _interval(each.speedup(impl, _torch(each)), "torch") if impl != "torch" else "–"
            memory = [words.memory(each.bytes[impl]), f"{share:.1%}" if share else "–"]
            yield _line([each.size, each.pass_name, impl, words.duration(median_us), ratio, *memory])
    yield from _absent(found)


def _absent(found: list[Timed]) -> Iterator[str]:
    reasons = dict.fromkeys(f"- {impl}, {each.size}: {why}" for each in found for impl, why in each.absent.items())
    if reasons:
        yield from ("", "Without a time:", "", *reasons)


def _gelu_misses(found: list[Timed]) -> list[str]:
    speedups = {each.size: each.speedup("triton", each.best(SEPARATE)) for each in found}
    reached = [size for size, speedup in speedups.items() if speedup and speedup[0] >= GELU_GOAL]
    if len(reached) >= SIZES_THAT_REACH_IT:
        return []
    shown = ", ".join(f"{size}: {_interval(speedup, 'separate')}" for size, speedup in speedups.items())
    count = f"{len(reached)} sizes, not {SIZES_THAT_REACH_IT}"
    return [f"linear_gelu is {GELU_GOAL}× as fast as the best separate kernels at {count} ({shown})"]


def _loss_misses(found: list[Timed]) -> list[str]:
    first = next(each for each in found if each.pass_name == "both")
    speedup = first.speedup("triton", _torch(first))
    if speedup is None:
        return [f"linear_cross_entropy {first.size}: no time of triton or torch"]
    missed = []
    if speedup[1] < LOSS_GOAL:
        missed.append(f"linear_cross_entropy {first.size} is {_interval(speedup, 'torch')}")
    share = first.bytes["triton"] / max(1, first.bytes["torch"])
    if share >= MEMORY_GOAL:
        missed.append(f"linear_cross_entropy {first.size} takes {share:.1%} of torch's memory")
    return missed


def _torch(each: Timed) -> str | None:
    return "torch" if "torch" in each.times else None


def _interval(speedup: tuple[float, float] | None, over: str | None) -> str:
    return f"{speedup[0]:.3f}–{speedup[1]:.3f}× {over}" if speedup else "–"


def _head(cells: list[str]) -> tuple[str, str]:
    return _line(cells), "|" + "---|" * len(cells)


def _line(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def print_candidates(out: Path, step: Step) -> None:
    """The candidates of a step, the fastest first, with the speed of each over PyTorch's."""
    for each in timed(out / step.name / "run", ("both",) if "both" in step.command else ("forward",)):
        print(f"{step.name} {each.size} {each.pass_name}")
        for impl in sorted(each.times, key=each.times.__getitem__):
            ratio = _interval(each.speedup(impl, _torch(each)), "torch")
            print(f"  {words.duration(each.times[impl]):>10}  {ratio:24} {impl}")
        for impl, why in each.absent.items():
            print(f"           –  {impl}: {why[:100]}")


# The command -------------------------------------------------------------------------------------------


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--minutes", type=float, default=25, help="after which the running command is interrupted")
    parser.add_argument("--quick-check", action="store_true", help="a small battery")
    parser.add_argument("--tune", action="store_true", help="time candidate configurations instead")
    parser.add_argument("--plan", action="store_true", help="the commands that are left")
    parser.add_argument("--page", type=Path, help="write the tables to this file")
    args = parser.parse_args()
    out = args.out.resolve()
    chosen = tuning_steps() if args.tune else steps(quick_check=args.quick_check)
    left = [step for step in chosen if not is_done(out, step)]
    if args.plan:
        print("\n".join(f"{step.name}: klab {' '.join(step.command)}" for step in left) or "nothing is left")
        return 0
    end = time.monotonic() + 60 * args.minutes
    for step in left:
        if end - time.monotonic() > _LEAST_LEFT_S:
            run_step(out, step, end)
    if args.tune:
        for step in chosen:
            if is_done(out, step):
                print_candidates(out, step)
        return 0
    text, missed = page(out)
    print(text)
    if args.page:
        args.page.write_text(text)
    (out / "missed.json").write_text(json.dumps(missed, indent=1))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
