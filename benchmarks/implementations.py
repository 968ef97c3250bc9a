"""Checks and times every implementation of gelu, square and softmax on this machine's GPU.

    python benchmarks/implementations.py OUT_DIR [gelu-float32 softmax ...]

Writes one record per command to OUT_DIR and prints a short table of each. It measured the figures in
docs/results/implementations-h200.md.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WIDTHS = "4096x1024,4096x4096,4096x16384,4096x65536,4096x131072"
COMMANDS = {
    "gelu-float32": ["gelu", "--shape", "16384x16384", "--dtype", "float32"],
    "gelu-bfloat16": ["gelu", "--shape", "16384x16384", "--dtype", "bfloat16"],
    "square": ["square", "--shape", "16384x16384", "--dtype", "float32,bfloat16"],
    "softmax": ["softmax", "--shape", WIDTHS, "--dtype", "float32,bfloat16"],
}


def main() -> int:
    out = Path(sys.argv[1])
    names = sys.argv[2:] or list(COMMANDS)
    failed = 0
    for name in names:
        began = time.monotonic()
        command = [sys.executable, "-m", "kernellab", "run", *COMMANDS[name], "--timeout", "120", "--json"]
        done = subprocess.run(
            [*command, "--out", str(out / f"run-{name}")],
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        )
        print(f"== klab run {' '.join(COMMANDS[name])}: exit {done.returncode}, {time.monotonic() - began:.0f} s")
        if not done.stdout:
            print(done.stderr[-2000:])
            failed = 1
            continue
        record = json.loads(done.stdout)
        (out / f"{name}.json").write_text(json.dumps(record))
        _print_table(record)
        failed |= done.returncode
    return failed


def _print_table(record: dict) -> None:
    ceilings = record["machine"]["ceilings"]
    print(f"   copy {ceilings['copy_gbps']:.0f} GB/s, matmul {ceilings['matmul_tflops']}")
    for r in record["results"]:
        d = r["derived"]
        sizes = "x".join(map(str, [*r["case"]["dims"]["..."], r["case"]["dims"]["N"]]))
        head = f"{r['op']:8} {r['impl']:12} {sizes:12} {r['case']['dtype']:9} {d['status']:8}"
        if d["time"] is None:
            print(head, d["reason"] or "")
            continue
        base, rival = d["speedup"]["baseline"], d["speedup"]["fastest_other"]
        print(
            head,
            f"{d['time']['median_us']:9.1f} us",
            f"{d['limit']['gbps']:6.0f} GB/s {d['limit']['fraction']:6.3f}",
            f"x{base['median']:6.2f} {base['over']}" if base else " " * 12,
            f"x{rival['median']:6.3f} {rival['over']} {rival['verdict']}" if rival else "",
            f"kernels {len(r['kernels'])}" if r["kernels"] is not None else "",
            f"err {r['check']['errors']['max']:.2g}",
            f"build {d['build_s']:.1f}" if d["build_s"] else "",
        )


if __name__ == "__main__":
    sys.exit(main())
