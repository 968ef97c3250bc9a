"""Is `cpp` not slower than the better of `torch` and `compile` on this CPU? Every op and pass, 4096×4096 float32.

    python benchmarks/cpp_vs_torch.py [--runs 10] [--ops softmax,gelu] [--seconds 1]

Each run is one `klab bench` in a process of its own. docs/results/cpu.md has the figures of GeLU and softmax against
`torch` alone.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PASSES = ("forward", "backward")
SHAPE = "4096x4096"
# 4096 tokens of 32 heads, each of 128 columns: 4096 × 4096 elements. 512 tokens are the declared case of attention.
SHAPES = {"rope": "1x32x4096x128x32", "attention": "1x8x512x64"}
LEAST_SHARE = 0.9  # of the runs


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--ops", default="", help="names separated by commas; all with `cpp` if none are given")
    parser.add_argument("--seconds", default="1", help="of timing for each implementation and pass")
    args = parser.parse_args()
    kept = True
    for op in args.ops.split(",") if args.ops else _ops():
        lines, not_slower = defaultdict(list), defaultdict(int)
        for _ in range(args.runs):
            verdicts = {result["impl"]: result["derived"]["passes"] for result in _bench(op, args.seconds)["results"]}
            for pass_name in PASSES:
                passes = {impl: passes.get(pass_name) for impl, passes in verdicts.items()}
                times = {impl: verdict["time"]["median_us"] / 1e3 for impl, verdict in passes.items() if verdict}
                ours = times.pop("cpp")
                other = min(times, key=times.__getitem__)
                not_slower[pass_name] += ours <= times[other]
                speedup = passes["cpp"]["speedup"]["fastest_other"]
                lines[pass_name].append(
                    f"{ours:.1f} ms, {other} {times[other]:.1f} ms, "
                    f"{speedup['median']:.2f}× ({speedup['low']:.2f}–{speedup['high']:.2f}) {speedup['verdict']}"
                )
        for pass_name in PASSES:
            count = not_slower[pass_name]
            print(f"{op} {pass_name}: cpp not slower than the best other in {count} of {args.runs} runs")
            print("\n".join(f"  {line}" for line in lines[pass_name]), flush=True)
            kept &= count >= LEAST_SHARE * args.runs
    return 0 if kept else 1


def _ops() -> list[str]:
    listed = json.loads(_klab("list", "--json"))
    return [entry["op"] for entry in listed if "cpp" in entry["impls"]]


def _bench(op: str, seconds: str) -> dict:
    work = f"bench {op} --impl torch,compile,cpp --shape {SHAPES.get(op, SHAPE)} --dtype float32 --device cpu"
    timing = f"--pass {','.join(PASSES)} --seconds {seconds} --only-times --json"
    with tempfile.TemporaryDirectory() as folder:
        return json.loads(_klab(*work.split(), *timing.split(), "--out", f"{folder}/run"))


def _klab(*command: str) -> str:
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run([sys.executable, "-m", "kernellab", *command], capture_output=True, text=True, env=env)
    if done.returncode:
        sys.exit(done.stderr or done.stdout)
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
