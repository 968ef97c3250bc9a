"""Is `cpp` not slower than `torch` on this CPU? GeLU and softmax, 4096×4096 float32, ten runs each.

    python benchmarks/cpp_vs_torch.py [RUNS]

Each run is one `klab bench` in a process of its own. It measured the figures in docs/results/cpu.md.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def main() -> int:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    fewest = runs
    for op in ("gelu", "softmax"):
        lines, not_slower = [], 0
        for _ in range(runs):
            record = _bench(op)
            median = {r["impl"]: r["derived"]["time"]["median_us"] / 1e3 for r in record["results"]}
            speedup = next(r for r in record["results"] if r["impl"] == "cpp")["derived"]["speedup"]["fastest_other"]
            not_slower += median["cpp"] <= median["torch"]
            lines.append(
                f"{median['cpp']:.1f} / {median['torch']:.1f} ms, "
                f"{speedup['median']:.2f}× ({speedup['low']:.2f}–{speedup['high']:.2f}) {speedup['verdict']}"
            )
        print(f"{op}: cpp not slower than torch in {not_slower} of {runs} runs (cpp / torch)")
        print("\n".join(f"  {line}" for line in lines), flush=True)
        fewest = min(fewest, not_slower)
    return 0 if fewest >= 0.9 * runs else 1


def _bench(op: str) -> dict:
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "kernellab", "bench", op, "--impl", "torch,cpp", "--shape", "4096x4096"]
        done = subprocess.run(
            [*command, "--dtype", "float32", "--device", "cpu", "--out", f"{folder}/run", "--json"],
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        )
    if done.returncode:
        sys.exit(done.stderr)
    return json.loads(done.stdout)


if __name__ == "__main__":
    sys.exit(main())
