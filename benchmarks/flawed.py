"""Does `klab explain` find what is wrong? Kernels with one flaw each, and the same without the flaw.

    python benchmarks/flawed.py OUT [--unseen] [--static] [--only strided,spills]

For each file of benchmarks/flawed, the script checks and times both implementations and explains the flawed one. It
compares the first finding with the flaw, and the predicted gain with what fixing it gained. `--unseen` uses the files
of benchmarks/flawed/unseen, which were written after the rules were frozen. `--static` times nothing and needs no GPU:
the findings come from the machine code, for an H200. Runs are kept in OUT and read again by the next call, and
flawed.csv and flawed.md are written there. Goal: every first finding right and every gain within a factor of 1.5. The
exit code is 0 with at most one miss.
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
HERE = ROOT / "benchmarks" / "flawed"
# The expected first finding of each file, written down before any of them was run on a GPU.
EXPECTED = {
    "unfused_chain": "unfused-chain",
    "unfused_softmax": "unfused-chain",
    "launch_bound": "launch-bound",
    "tail_wave": "tail-wave",
    "too_few_blocks": "too-few-blocks",
    "low_occupancy": "low-occupancy",
    "spills": "spills",
    "narrow_access": "narrow-access",
    "strided": "uncoalesced",
    "fp64_literal": "fp64-by-accident",
    "no_tensor_cores": "no-tensor-cores",
    "excess_bytes": "excess-bytes",
    "copies": "excess-bytes",
}
UNSEEN = HERE / "unseen"
WITHIN, MISSES = 1.5, 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path, metavar="OUT")
    parser.add_argument("--unseen", action="store_true", help="the files written after the rules were frozen")
    parser.add_argument("--static", action="store_true", help="time nothing; no GPU needed")
    parser.add_argument("--only", metavar="A,B", help="only these files")
    parser.add_argument("--seconds", default="0.3", help="time to spend timing each implementation")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    expected = json.loads((UNSEEN / "EXPECTED.json").read_text()) if args.unseen else EXPECTED
    names = args.only.split(",") if args.only else list(expected)
    began = time.monotonic()
    documents = {name: explain(name, args) for name in names}
    rows = [row(name, document, expected[name]) for name, document in documents.items()]
    write(args, rows, next((d for d in documents.values() if d), {}), time.monotonic() - began)
    hits = sum(r["right"] and (args.static or r["within"]) for r in rows)
    return 0 if hits >= len(rows) - MISSES else 1


def explain(name: str, args: argparse.Namespace) -> dict:
    command, folder = [sys.executable, "-m", "kernellab", "explain", "--json"], args.out / name
    if (folder / "run.json").exists():
        command += [str(folder)]
    else:
        file = (UNSEEN if args.unseen else HERE) / f"{name}.py"
        command += [str(file), "--impl", "flawed,fixed", "--out", str(folder)]
        command += ["--static", "--gpu", "h200"] if args.static else ["--seconds", args.seconds, "--device", "cuda"]
    done = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(ROOT / "src")}, timeout=300
    )
    if done.returncode:
        print(f"{name}: {done.stderr.strip().splitlines()[-1:] or done.returncode}", file=sys.stderr)
    return json.loads(done.stdout) if done.stdout.startswith("{") else {}


def row(name: str, document: dict, expected: str) -> dict:
    impls = {result["impl"]: result for result in document.get("results", ())}
    flawed, fixed = impls.get("flawed", {}), impls.get("fixed", {})
    first = next(iter(flawed.get("findings", ())), {})
    times = [impl.get("time_us") for impl in (flawed, fixed)]
    measured = times[0] / times[1] if all(times) else None
    predicted = predicted_gain(first)
    ratio = predicted / measured if predicted and measured else None
    first_of_fixed = next(iter(fixed.get("findings", ())), {})
    return {
        "file": name,
        "expected": expected,
        "found": first.get("rule", "nothing"),
        "right": first.get("rule") == expected,
        "sure": first.get("sure", ""),
        "predicted_gain": predicted,
        "measured_gain": measured,
        "within": ratio is not None and 1 / WITHIN <= ratio <= WITHIN,
        "flawed_us": times[0],
        "fixed_us": times[1],
        "fixed_first": first_of_fixed.get("rule", "nothing"),
        "also": " ".join(f"{f['rule']}:{f['gain']:.2f}" for f in flawed.get("findings", ())[1:] if f["gain"]),
    }


def predicted_gain(finding: dict) -> float | None:
    """By the model, where the fixed implementation has corrected the gain: that would compare it with itself."""
    predictions = (e["value"] for e in finding.get("evidence", ()) if e["what"] == "gain, predicted")
    return next(predictions, finding.get("gain"))


def write(args: argparse.Namespace, rows: list[dict], document: dict, took_s: float) -> None:
    with (args.out / "flawed.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    machine = document.get("machine") or {}
    lines = [
        "# Flawed kernels, and what klab explain finds in them",
        "",
        f"machine: {machine.get('class') or 'none: by model, for an H200'}  ",
        f"date: {time.strftime('%Y-%m-%d')}  ",
        f"versions: torch {machine.get('torch', 'not used')}  ",
        "script: benchmarks/flawed.py" + (" --static" if args.static else ""),
        "",
        "| file | expected | found first | sure | predicted gain | measured gain | within 1.5 "
        "| the fixed one's first | also |",
        "|---|---|---|---|---:|---:|---|---|---|",
        *(
            f"| {r['file']} | {r['expected']} | {r['found']} | {r['sure']} | {number(r['predicted_gain'])} "
            f"| {number(r['measured_gain'])} | {'yes' if r['within'] else '' if args.static else 'no'} "
            f"| {r['fixed_first']} | {r['also']} |"
            for r in rows
        ),
        "",
        f"{sum(r['right'] for r in rows)} of {len(rows)} first findings right"
        + ("" if args.static else f", {sum(r['within'] for r in rows)} gains within a factor of {WITHIN}")
        + f"; took {took_s:.0f} s.",
    ]
    (args.out / "flawed.md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


def number(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


if __name__ == "__main__":
    sys.exit(main())
