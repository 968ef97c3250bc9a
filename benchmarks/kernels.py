"""Are the shipped kernels at the limit of memory, and not slower than anything else, in every cell of a grid?

    python benchmarks/kernels.py OUT [--ops softmax,rope] [--seconds 0.3] [--minutes 8] [--cells 1,3]
    python benchmarks/kernels.py --page OUT > table.md

A cell is an op, a pass and a size, in bfloat16. All implementations of a cell are timed interleaved, with a cold cache,
after they were checked. One run per op and size; runs that are in OUT already are not made again, and one that was
interrupted is finished. `--page` makes the table of docs/results/kernels-h200.md, and lists the cells that miss:

- slower: the best of triton and cuda has less than 0.99 of the speed of the best other implementation
- below the limit: less than 0.95 of copy bandwidth (cross_entropy 0.91, backward of a norm 0.85) in a cell that moves
  more than 512 MB
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))

from kernellab.record.reading import load
from kernellab.record.verdict import derive
from kernellab.reporting.text import numbers as words

ELEMENTWISE = ("square", "gelu", "silu", "swiglu", "geglu", "rope")
NORMS = ("layer_norm", "rms_norm", "add_rms_norm")
OPS = (*ELEMENTWISE, "softmax", *NORMS, "cross_entropy")
SIZES = ((16384, 1024), (16384, 4096), (8192, 16384), (4096, 65536), (4096, 131072))
OURS = ("triton", "cuda")

NOT_SLOWER = 0.99
LEAST_SHARE, LEAST_SHARES = 0.95, {("cross_entropy", "forward"): 0.91, ("cross_entropy", "backward"): 0.91}
LEAST_SHARES |= {(name, "backward"): 0.85 for name in NORMS}
LARGE = 512e6  # bytes

Result = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--ops", default=",".join(OPS))
    parser.add_argument("--cells", default="0,1,2,3,4", help="numbers of sizes, from 0")
    parser.add_argument("--seconds", default="0.3", help="of timing for each implementation")
    parser.add_argument("--minutes", type=float, default=600, help="after which no other run is begun")
    parser.add_argument("--page", action="store_true", help="the table, from the records in OUT")
    args = parser.parse_args()
    if args.page:
        print(_page(args.out))
        return
    end = time.monotonic() + 60 * args.minutes
    for number in map(int, args.cells.split(",")):
        for op in args.ops.split(","):
            if time.monotonic() < end:
                _run(args.out, op, *SIZES[number], args.seconds)


def _run(out: Path, op: str, rows: int, cols: int, seconds: str) -> None:
    folder = out / f"{op}-{rows}x{cols}"
    command = [sys.executable, "-m", "kernellab", "bench"]
    if not folder.exists():
        command += [op, "--shape", _shape(op, rows, cols), "--dtype", "bfloat16", "--pass", "forward,backward"]
        command += ["--impl", "manual,torch,compile,triton,cuda", "--seconds", seconds, "--out", str(folder)]
    elif not load(folder)["complete"]:
        command += ["--resume", str(folder)]
    else:
        return
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(command, env=env, stdout=subprocess.PIPE, text=True)
    folder.with_suffix(".txt").write_text(done.stdout)
    print(f"{folder.name}: exit code {done.returncode}", flush=True)


def _shape(op: str, rows: int, cols: int) -> str:
    """Heads of rope are 128 columns wide, and four queries share a key."""
    if op != "rope":
        return f"{rows}x{cols}"
    batches, heads = rows // 4096, cols // 128
    return f"{batches}x{heads}x4096x128x{max(1, heads // 4)}"


# The page ----------------------------------------------------------------------------------------------


def _page(out: Path) -> str:
    lines = [
        "| op | pass | size | ours | time | GB/s | of copy | best other | its time | ours over it |",
        "|" + "---|" * 10,
    ]
    missed: list[str] = []
    for op in OPS:
        for rows, cols in SIZES:
            folder = out / f"{op}-{rows}x{cols}"
            if not folder.exists():
                missed.append(f"{op} {rows}×{cols}: not measured")
                continue
            results = derive(load(folder))["results"]
            for pass_name in ("forward", "backward"):
                _add_cell(lines, missed, op, pass_name, f"{rows}×{cols}", results)
    return "\n".join([*lines, "", "Missed:", "", *(f"- {line}" for line in missed or ["nothing"])])


def _add_cell(lines: list[str], missed: list[str], op: str, pass_name: str, size: str, results: list[Result]) -> None:
    where = f"{op} {pass_name} {size}"
    passes = {r["impl"]: r["derived"]["passes"].get(pass_name) for r in results}
    times = {impl: p["time"]["median_us"] for impl, p in passes.items() if p and p["time"]}
    for result in results:
        if result["derived"]["status"] not in ("ok", "skipped"):
            missed.append(f"{where}: {result['impl']} {result['derived']['status']}: {result['derived']['reason']}")
    ours = [impl for impl in OURS if impl in times]
    if not ours:
        missed.append(f"{where}: no kernel of ours has a time")
        return
    best = min(ours, key=times.__getitem__)
    other = min((impl for impl in times if impl not in OURS), key=times.__getitem__, default=None)
    limit = passes[best]["limit"]
    cells = [op, pass_name, size, best, words.duration(times[best]), f"{limit['gbps']:.0f}", f"{limit['fraction']:.3f}"]
    ratio = times[other] / times[best] if other else None
    cells += [other, words.duration(times[other]), f"{ratio:.2f}×"] if other and ratio else ["–", "–", "–"]
    lines.append("| " + " | ".join(cells) + " |")
    least = LEAST_SHARES.get((op, pass_name), LEAST_SHARE)
    if ratio is not None and ratio < NOT_SLOWER:
        missed.append(f"{where}: slower: {ratio:.3f} of {other}'s speed")
    if limit["bytes"] > LARGE and limit["fraction"] < least:
        missed.append(f"{where}: below the limit: {limit['fraction']:.3f} of copy, {least} promised")


if __name__ == "__main__":
    main()
