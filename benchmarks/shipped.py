"""Do the checks while timing accuse a shipped implementation? Every op and implementation, in repeated runs.

    python benchmarks/shipped.py OUT_DIR [--runs 20] [--first 0] [--shape 2048x2048]

Each run is a process of its own. Records of earlier runs in OUT_DIR are kept and counted: `--first 11 --runs 9` adds
nine. Counts results that are not ok, and notes made while timing. Goal: none in 20 runs.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))

from kernellab.record.reading import load
from kernellab.record.verdict import derive


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--first", type=int, default=0, help="number, and seed, of the first run")
    parser.add_argument("--shape", default="2048x2048")
    parser.add_argument("--dtype", default="float32")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    timed, accused = collections.Counter(), collections.Counter()
    began = time.monotonic()
    for number in range(args.first, args.first + args.runs):
        _run(number, args)
        print(f"run {number} done", file=sys.stderr, flush=True)
    records = [derive(load(folder)) for folder in sorted(args.out.glob("run-*"))]
    for record in records:
        for result in record["results"]:
            impl = f"{result['op']} {result['impl']}"
            status = result["derived"]["status"]
            timed[impl] += result["derived"]["time"] is not None
            if status not in ("ok", "skipped"):
                accused[f"{impl}: {status}: {result['derived']['reason']}"] += 1
            for guard in result["guards"]:
                accused[f"{impl}: note: {guard['detail']}"] += 1
    document = {"runs": len(records), "timed": timed, "accused": accused, "took_s": time.monotonic() - began}
    (args.out / "shipped.json").write_text(json.dumps(document, indent=1))
    for impl, count in timed.items():
        print(f"{impl:24} timed in {count} of {len(records)} runs")
    for accusation, count in accused.items():
        print(f"ACCUSED {count} times: {accusation}")
    print(f"{len(records)} runs, {args.runs} of them now, in {document['took_s']:.0f} s")
    print(f"accusations: {sum(accused.values())}")
    return 1 if accused else 0


def _run(number: int, args: argparse.Namespace) -> None:
    options = ["--shape", args.shape, "--dtype", args.dtype, "--seconds", "0.2", "--only-times", "--seed", str(number)]
    target = ROOT / "benchmarks" / "shipped_ops.py"
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "kernellab",
            "bench",
            str(target),
            *options,
            "--out",
            args.out / f"run-{number}",
        ],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
    )
    if done.returncode not in (0, 1):
        sys.exit(done.stderr)


if __name__ == "__main__":
    sys.exit(main())
