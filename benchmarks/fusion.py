"""Does the gain predicted for fusing a chain hold on a GPU? GeLU, softmax and square, in float32 and bfloat16.

    python benchmarks/fusion.py OUT [--shape 16384x16384]

Each op's implementation `manual`, a chain of operators, is timed beside its fused ones. The predicted gain is the time
of the chain over that of a fused kernel that moves the fewest bytes at the measured copy bandwidth; `klab explain`
predicts the same unless a fused implementation was timed and gains less. By bytes alone, as without a GPU, the gain is
the bytes that the chain's operators move over the fewest. The measured gain is over the fastest fused implementation.
Writes fusion.csv and fusion.md to OUT. Runs are kept there; an op whose run exists is not run again. Goal: each
prediction within 25 %. The exit code is 0 if all are.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OPS, DTYPES = ("gelu", "softmax", "square"), ("float32", "bfloat16")
WITHIN = 0.25


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path, metavar="OUT")
    parser.add_argument("--shape", default="16384x16384")
    parser.add_argument("--seconds", default="0.5", help="time to spend timing each implementation")
    parser.add_argument("--device", default="cuda", help="cpu only tests the script")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    rows, machine = [], {}
    for op in OPS:
        document = explain(op, args)
        machine = document["machine"]
        rows += [row(op, dtype, document["results"]) for dtype in DTYPES]
    return write(args, rows, machine)


def explain(op: str, args: argparse.Namespace) -> dict:
    folder = args.out / op
    command = [sys.executable, "-m", "kernellab", "explain"]
    if (folder / "run.json").exists():
        command += [str(folder), "--json"]
    else:
        command += [op, "--shape", args.shape, "--dtype", ",".join(DTYPES), "--json", "--out", str(folder)]
        command += ["--impl", "manual,torch,compile,triton,cuda" + (",cpp" if args.device == "cpu" else "")]
        command += ["--seconds", args.seconds, "--device", args.device]
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(command, capture_output=True, text=True, env=env, timeout=590)
    if not done.stdout.startswith("{"):
        sys.exit(f"{op}: {done.stderr}")
    return json.loads(done.stdout)


def row(op: str, dtype: str, results: list[dict]) -> dict:
    timed = [r for r in results if r["case"]["dtype"] == dtype and r["measured"]]
    manual = next(r for r in timed if r["impl"] == "manual")
    best = min((r for r in timed if r is not manual), key=lambda r: r["time_us"])
    chain = manual["fusion"]
    measured = manual["time_us"] / best["time_us"]
    return {
        "op": op,
        "dtype": dtype,
        "operators": len(chain["steps"]),
        "kernels": chain["kernels"],
        "moved_mb": chain["moved_bytes"] / 1e6,
        "fewest_mb": chain["fewest_bytes"] / 1e6,
        "predicted_us": chain["chain_us"],
        "measured_us": manual["time_us"],
        "best": best["impl"],
        "best_us": best["time_us"],
        "predicted_gain": chain["timed_gain"],
        "measured_gain": measured,
        "error": chain["timed_gain"] / measured - 1,
        "bytes_gain": chain["gain"],
        "bytes_error": chain["gain"] / measured - 1,
    }


def line(r: dict) -> str:
    counts = (
        f"| {r['op']} | {r['dtype']} | {r['operators']} | {r['kernels']} | {r['moved_mb']:.0f} | {r['fewest_mb']:.0f} "
    )
    times = f"| {r['predicted_us']:.1f} | {r['measured_us']:.1f} | {r['best']} | {r['best_us']:.1f} "
    gains = f"| {r['predicted_gain']:.2f} | {r['measured_gain']:.2f} | {r['error']:+.0%} "
    return counts + times + gains + f"| {r['bytes_gain']:.2f} | {r['bytes_error']:+.0%} |"


def write(args: argparse.Namespace, rows: list[dict], machine: dict) -> int:
    with (args.out / "fusion.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    within, within_by_bytes = (sum(abs(r[name]) <= WITHIN for r in rows) for name in ("error", "bytes_error"))
    lines = [
        "# Fusing, predicted and measured",
        "",
        f"machine: {machine['class']}, copy {machine['ceilings']['copy_gbps']:.0f} GB/s  ",
        f"date: {time.strftime('%Y-%m-%d')}  ",
        f"versions: torch {machine['torch']}  ",
        f"script: benchmarks/fusion.py, {args.shape}",
        "",
        "| op | dtype | operators | kernels | MB moved | fewest | chain µs, predicted | measured | best fused | µs "
        "| gain, predicted | measured | error | by bytes alone | error |",
        "|---|---|---:|---:|---:|---:|---:|---:|---|---:|---:|---:|---:|---:|---:|",
        *(line(r) for r in rows),
        "",
        f"{within} of {len(rows)} within {WITHIN:.0%}; by bytes alone {within_by_bytes}.",
    ]
    (args.out / "fusion.md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))
    return 0 if within == len(rows) else 1


if __name__ == "__main__":
    sys.exit(main())
