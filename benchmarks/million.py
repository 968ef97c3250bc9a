"""How long, and how much memory, it takes to read and analyse a million events, compared with HolisticTraceAnalysis.

    python benchmarks/grow_trace.py real.json.gz grown.json --names 20
    python benchmarks/million.py grown.json [--hta PYTHON] [--runs 3]

Each reader runs in a process of its own, one after another. PYTHON is a Python that has HolisticTraceAnalysis
(https://github.com/facebookresearch/HolisticTraceAnalysis) installed. It runs comparable analyses: GPU time by kernel,
operator and range, how busy the GPU was, why it was idle, how far the CPU ran ahead.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
TIMEOUT_S = 900

OURS = """
import json, resource, sys, time
from kernellab import traces
began = time.perf_counter()
trace = traces.read(sys.argv[1])
read = time.perf_counter()
parts = {"read": read - began}
try:
    from kernellab.analysis.document import analyse
except ImportError:
    analyse = None
if analyse:
    document = analyse(trace)
    parts["analyse"] = time.perf_counter() - read
"""
THEIRS = """
import json, logging, resource, sys, time, warnings
warnings.simplefilter("ignore")
logging.disable(logging.CRITICAL)
from hta.trace_analysis import TraceAnalysis
began = time.perf_counter()
analyzer = TraceAnalysis(trace_files={0: sys.argv[1]}, trace_dir="")
parts = {"read": time.perf_counter() - began}
questions = ["gpu_kernel_breakdown", "temporal_breakdown", "idle_time_breakdown", "cuda_kernel_launch_stats",
             "gpu_user_annotation_breakdown", "queue_length_summary", "aten_op_kernels_and_delay"]
pictures = questions[:5]
for question in questions:
    before = time.perf_counter()
    try:
        getattr(analyzer, "get_" + question)(**({"visualize": False} if question in pictures else {}))
    except Exception as error:
        question += f" (fails: {type(error).__name__})"
    parts[question] = time.perf_counter() - before
"""
REPORT = """
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
children = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
cpu = sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
seconds = time.perf_counter() - began
print(json.dumps({"seconds": seconds, "cpu": cpu, "peak": max(peak, children), "parts": parts}))
"""


def measure(python: str, code: str, trace: Path) -> dict[str, Any]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")} if code is OURS else dict(os.environ)
    try:
        done = subprocess.run(
            [python, "-c", code + REPORT, str(trace.resolve())],
            capture_output=True, text=True, timeout=TIMEOUT_S, env=environment,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return {"failed": f"not done after {TIMEOUT_S} s"}
    if done.returncode:
        return {"failed": (done.stderr.strip().splitlines() or [f"ended with {done.returncode}"])[-1]}
    figures: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return figures


def describe(name: str, figures: dict[str, Any]) -> str:
    if "failed" in figures:
        return f"{name}: {figures['failed']}"
    parts = ", ".join(f"{part} {seconds:.1f} s" for part, seconds in figures["parts"].items())
    return (
        f"{name}: {figures['seconds']:.1f} s ({figures['cpu']:.1f} s of CPU), {figures['peak'] / 1e9:.2f} GB ({parts})"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace", type=Path)
    parser.add_argument("--hta", help="a Python that has HolisticTraceAnalysis")
    parser.add_argument("--runs", type=int, default=1)
    args = parser.parse_args()
    print(
        f"{args.trace.name}, {args.trace.stat().st_size / 1e6:.0f} MB; {os.cpu_count()} cores, {platform.machine()}, "
        f"Python {platform.python_version()}, numpy {version('numpy')}; {time.strftime('%Y-%m-%d %H:%M')}"
    )
    for _ in range(args.runs):
        load = os.getloadavg()[0]
        ours = measure(sys.executable, OURS, args.trace)
        print(describe("kernellab", ours), f"[load before: {load:.1f}]", flush=True)
        if args.hta:
            load = os.getloadavg()[0]
            theirs = measure(args.hta, THEIRS, args.trace)
            print(describe("HolisticTraceAnalysis", theirs), f"[load before: {load:.1f}]", flush=True)
            if "seconds" in ours and "seconds" in theirs:
                print(f"{theirs['seconds'] / ours['seconds']:.1f} times as long", flush=True)


if __name__ == "__main__":
    main()
