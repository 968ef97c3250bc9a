"""Are times on a CPU reliable, idle and under load? Equal implementations in many runs, then with every core busy.

    python benchmarks/load.py [--runs 40] [--loaded-runs 3] [--out DIR] [--seconds S]

Idle: how often the interval on two equal implementations covers 1. Under load, with one busy process per core: whether
the times are marked as not trusted. Writes load.json and the runs' records to DIR.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT / "src"), os.environ.get("PYTHONPATH")]))

from kernellab.doctor.aa_runs import repeat
from kernellab.doctor.aa_summary import Summary, summarise
from kernellab.machine.environment import cpu
from kernellab.reporting.terminal import aa as report
from kernellab.reporting.text.console import console


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=40)
    parser.add_argument("--loaded-runs", type=int, default=3)
    parser.add_argument("--out", type=Path, default=None)
    parser.add_argument("--seconds", type=float, default=1.0, help="per implementation and case")
    args = parser.parse_args()
    out = args.out or Path(f"load-{time.strftime('%Y%m%d-%H%M%S')}")
    idle = _summary(args.runs, out / "idle", args.seconds)
    with busy(cpu()["cores"]):
        loaded = _summary(args.loaded_runs, out / "loaded", args.seconds)
    (out / "load.json").write_text(json.dumps({"idle": idle, "loaded": loaded}, indent=1))
    for name, summary in (("idle", idle), ("every core busy with something else", loaded)):
        print(f"== {name}")
        report.show(summary, console())
        print()
    covered = all(c["equal"]["covers"] >= 0.95 * c["equal"]["of"] for c in idle["cases"])
    noticed = all("trusted" not in case["trust"] for case in loaded["cases"])
    print(f"idle: the interval on equal implementations covers 1 in 95 % of the runs: {'met' if covered else 'MISSED'}")
    print(f"under load: no time is called trusted: {'met' if noticed else 'MISSED'}")
    return 0 if covered and noticed else 1


def _summary(runs: int, folder: Path, seconds: float) -> Summary:
    series = repeat(
        runs,
        folder,
        device="cpu",
        seconds=seconds,
        say=lambda text: print(f"{folder.name}: {text}", file=sys.stderr, flush=True),
    )
    return summarise(series.records)


@contextlib.contextmanager
def busy(cores: int) -> Iterator[None]:
    """Keeps every core busy with a process of its own until the end of the block."""
    command = [sys.executable, "-c", "while True: pass"]
    processes = [subprocess.Popen(command) for _ in range(cores)]
    try:
        time.sleep(1.0)
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


if __name__ == "__main__":
    sys.exit(main())
