"""Damaged and hostile traces: is each read or refused, how long does it take, and how much memory?

    python benchmarks/damaged_traces.py [--count 20000] [--megabytes 100]

The tests do the same with fewer and smaller traces. Each large file is read in a process of its own.
"""

from __future__ import annotations

import argparse
import gzip
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests")]

from support.chrome_traces import fuzz

READ = """
import re, sys, time
sys.path.insert(0, sys.argv[2])
from kernellab import traces
from kernellab.base.errors import UserError
began = time.perf_counter()
try:
    trace = traces.read(sys.argv[1])
    outcome = f"{len(trace):,} rows; " + " ".join(trace.notes)
except UserError as error:
    outcome = "refused: " + error.message
peak = int(re.search(r"VmHWM:\\s*(\\d+)", open("/proc/self/status").read())[1]) / 1e6
print(f"{time.perf_counter() - began:.1f} s, {peak:.2f} GB: {outcome[:200]}")
"""


def hostile_files(size: int) -> Iterator[tuple[str, bytes]]:
    """Files of about `size` bytes, each with its defect in words."""

    def event(name: str, ts: float, **more: object) -> str:
        fields = {"ph": "X", "cat": "cpu_op", "name": name, "pid": 1, "tid": 1, "ts": ts, "dur": 1, **more}
        return json.dumps(fields)

    def file_of(events: list[str]) -> bytes:
        return ('{"traceEvents": [' + ",\n".join(events) + "]}").encode()

    count = size // 120
    yield "every name is different", file_of([event(f"name {number} " + "n" * 30, number) for number in range(count)])
    yield (
        "every detail is different",
        file_of(
            [
                event("a", number, args={"Input Dims": [[number, 2]], "Input type": [f"t{number}"]})
                for number in range(count)
            ]
        ),
    )
    yield "every thread is different", file_of([event("a", number, tid=number) for number in range(count)])
    yield "names of 10 MB", file_of([event("x" * 10_000_000, number) for number in range(size // 10_000_000)])
    yield "one name takes the whole file", file_of([event("a", 1), event("x" * size, 2), event("b", 3)])
    yield "no event is JSON", file_of([event("C:\\Users", number).replace("\\\\", "\\") for number in range(count)])
    yield (
        "every second event is not JSON",
        file_of([event("C:\\Users", number).replace("\\\\", "\\" * (1 + number % 2)) for number in range(count)]),
    )
    yield "quotes and braces", b'{"traceEvents": [' + b'},{"ph":"' * (size // 9)
    yield "brackets", b'{"traceEvents": [' + b"[" * size
    yield "nested objects", b'{"a":' * (size // 5)
    yield "zero bytes only", b'{"traceEvents": [' + b"\0" * size
    yield "compressed blanks, ten times as long", gzip.compress(b"[" + b" " * (10 * size), 1)
    yield (
        "ranges that all overlap",
        file_of([event("r", number, cat="user_annotation", dur=count + number) for number in range(count)]),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--megabytes", type=int, default=100)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        began, readable = time.perf_counter(), 0
        for seed in range(args.count // 500):
            readable += fuzz(seed, 500, Path(folder))
        seconds = time.perf_counter() - began
        print(f"{args.count:,} damaged at random: {readable:,} read, the others refused ({seconds:.0f} s)", flush=True)
        for defect, content in hostile_files(args.megabytes * 1_000_000):
            path = Path(folder) / "hostile.json"
            path.write_bytes(content)
            command = [sys.executable, "-c", READ, str(path), str(ROOT / "src")]
            done = subprocess.run(command, capture_output=True, text=True, timeout=600)
            print(
                f"{defect}: {done.stdout.strip() or done.stderr.strip().splitlines()[-1]}".replace(
                    str(path), "the file"
                ),
                flush=True,
            )


if __name__ == "__main__":
    main()
