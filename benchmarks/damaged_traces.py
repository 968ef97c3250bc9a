"""Damaged and hostile traces, many and large: is each read or refused, how long does it take, in how much memory?

    python benchmarks/damaged_traces.py [--count 20000] [--megabytes 100]

The tests do the same with few and small ones. Each large file is read in a process of its own.
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
    said = f"{len(trace):,} rows; " + " ".join(trace.notes)
except UserError as error:
    said = "refused: " + error.message
peak = int(re.search(r"VmHWM:\\s*(\\d+)", open("/proc/self/status").read())[1]) / 1e6
print(f"{time.perf_counter() - began:.1f} s, {peak:.2f} GB: {said[:200]}")
"""


def hostile(size: int) -> Iterator[tuple[str, bytes]]:
    """What is wrong with it, and a file of about `size` bytes."""

    def event(name: str, ts: float, **more: object) -> str:
        fields = {"ph": "X", "cat": "cpu_op", "name": name, "pid": 1, "tid": 1, "ts": ts, "dur": 1, **more}
        return json.dumps(fields)

    def of(events: list[str]) -> bytes:
        return ('{"traceEvents": [' + ",\n".join(events) + "]}").encode()

    some = size // 120
    yield "every name another", of([event(f"name {number} " + "n" * 30, number) for number in range(some)])
    yield (
        "every detail another",
        of(
            [
                event("a", number, args={"Input Dims": [[number, 2]], "Input type": [f"t{number}"]})
                for number in range(some)
            ]
        ),
    )
    yield "every thread another", of([event("a", number, tid=number) for number in range(some)])
    yield "names of 10 MB", of([event("x" * 10_000_000, number) for number in range(size // 10_000_000)])
    yield "one name of everything", of([event("a", 1), event("x" * size, 2), event("b", 3)])
    yield "no event is JSON", of([event("C:\\Users", number).replace("\\\\", "\\") for number in range(some)])
    yield (
        "every second event is no JSON",
        of([event("C:\\Users", number).replace("\\\\", "\\" * (1 + number % 2)) for number in range(some)]),
    )
    yield "quotes and braces", b'{"traceEvents": [' + b'},{"ph":"' * (size // 9)
    yield "brackets", b'{"traceEvents": [' + b"[" * size
    yield "objects in objects", b'{"a":' * (size // 5)
    yield "nothing but zeros", b'{"traceEvents": [' + b"\0" * size
    yield "packed blanks, ten times as long", gzip.compress(b"[" + b" " * (10 * size), 1)
    yield (
        "a range around each other",
        of([event("r", number, cat="user_annotation", dur=some + number) for number in range(some)]),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--megabytes", type=int, default=100)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        began, read = time.perf_counter(), 0
        for seed in range(asked.count // 500):
            read += fuzz(seed, 500, Path(folder))
        seconds = time.perf_counter() - began
        print(f"{asked.count:,} damaged at random: {read:,} read, the others refused ({seconds:.0f} s)", flush=True)
        for what, content in hostile(asked.megabytes * 1_000_000):
            path = Path(folder) / "hostile.json"
            path.write_bytes(content)
            command = [sys.executable, "-c", READ, str(path), str(ROOT / "src")]
            done = subprocess.run(command, capture_output=True, text=True, timeout=600)
            print(
                f"{what}: {done.stdout.strip() or done.stderr.strip().splitlines()[-1]}".replace(str(path), "it"),
                flush=True,
            )


if __name__ == "__main__":
    main()
