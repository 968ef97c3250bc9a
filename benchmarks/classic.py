"""A classic sweep: square on 4096×N, N from 256 to 12672 in steps of 128, in Triton, PyTorch and torch.compile.

    python benchmarks/classic.py OUT_DIR

98 sizes, three implementations. Writes the record, the table as text, CSV, PNG and SVG; prints how long it took, and
whether torch.compile compiled every size (a fall-back to eager would be an error).
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))

from kernellab.record.reading import load
from kernellab.record.verdict import derive

COMMAND = ["bench", "square", "--impl", "triton,torch,compile", "--shape", "4096x256", "--N", "256:12672:128"]


def main() -> int:
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    out = Path(sys.argv[1])
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "kernellab", *COMMAND, "--dtype", "float32", "--only-times", "--out", str(out)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
    )
    took = time.monotonic() - began
    (out / "table.txt").write_text(done.stdout)
    print(done.stdout)
    results = derive(load(out))["results"]
    compiled = [r for r in results if r["impl"] == "compile"]
    graphs = [(r["built"] or {}).get("compile", {}).get("graphs", 0) for r in compiled]
    right = sum(r["derived"]["status"] == "ok" and r["derived"]["time"] is not None for r in results)
    print(f"{right} of {len(results)} results right and timed; {took:.0f} s in all")
    print(f"torch.compile: {sum(count > 0 for count in graphs)} of {len(graphs)} sizes have a graph of their own")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
