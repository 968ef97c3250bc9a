"""Is any shipped way accused of cheating? Every op and way, run after run, each run a process of its own.

    python benchmarks/shipped.py OUT_DIR [--runs 20] [--shape 2048x2048]

Counts what is not ok and what was noted while timing. Promised: nothing, over 20 runs.
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


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--shape", default="2048x2048")
    parser.add_argument("--dtype", default="float32")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    timed, accused = collections.Counter(), collections.Counter()
    began = time.monotonic()
    for number in range(args.runs):
        record = _run(number, args)
        for result in record["results"]:
            way = f"{result['op']} {result['impl']}"
            status = result["derived"]["status"]
            timed[way] += result["derived"]["time"] is not None
            if status not in ("ok", "skipped"):
                accused[f"{way}: {status}: {result['derived']['reason']}"] += 1
            for guard in result["guards"]:
                accused[f"{way}: note: {guard['detail']}"] += 1
        print(
            f"run {number + 1} of {args.runs}: {sum(accused.values())} accusations so far", file=sys.stderr, flush=True
        )
    document = {"runs": args.runs, "timed": timed, "accused": accused, "took_s": time.monotonic() - began}
    (args.out / "shipped.json").write_text(json.dumps(document, indent=1))
    for way, count in timed.items():
        print(f"{way:24} timed in {count} of {args.runs} runs")
    for what, count in accused.items():
        print(f"ACCUSED {count} times: {what}")
    print(f"{args.runs} runs took {document['took_s']:.0f} s; accusations: {sum(accused.values())}")
    return 1 if accused else 0


def _run(number: int, args: argparse.Namespace) -> dict:
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
            "--json",
            "--out",
            args.out / f"run-{number}",
        ],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
    )
    if not done.stdout:
        sys.exit(done.stderr)
    return json.loads(done.stdout)


if __name__ == "__main__":
    sys.exit(main())
