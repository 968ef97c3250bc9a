"""Which share of a run is spent measuring? One `klab bench gelu`, broken down from its record and its journal.

    python benchmarks/overhead.py OUT_DIR [--device cpu] [--impl torch,triton]

Measuring means warm-up and timed rounds, including flushing the cache and checking results between windows. Its time is
compared with the time after imports and builds: of the case, and of the whole command.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))

from kernellab.machine.environment import gpus
from kernellab.record.reading import load, read_journal
from kernellab.record.verdict import derive

SHAPES = {"cuda": "16384x16384", "cpu": "4096x1024"}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cuda" if gpus() else "cpu")
    parser.add_argument("--impl", help="only these implementations")
    args = parser.parse_args()
    options = ["--shape", SHAPES[args.device], "--dtype", "float32", "--device", args.device]
    options += ["--impl", args.impl] if args.impl else []
    done = subprocess.run(
        [sys.executable, "-m", "kernellab", "bench", "gelu", *options, "--out", str(args.out / "run"), "--json"],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
    )
    if not done.stdout:
        sys.exit(done.stderr)
    breakdown = break_down(load(args.out / "run"), read_journal(args.out / "run"))
    (args.out / "overhead.json").write_text(json.dumps(breakdown, indent=1))
    print(f"klab bench gelu {' '.join(options)}")
    for part in ("case", "command"):
        share, after_s = breakdown[part]["share"], breakdown[part]["after_s"]
        print(f"\n{part}: {100 * share:.0f} % of {after_s:.1f} s after imports and builds is measuring")
        for name, seconds in breakdown[part]["parts_s"].items():
            print(f"  {seconds:7.2f} s  {name}")
    print(
        f"\n  {breakdown['windows_s']:.2f} s of the timed rounds were inside timed windows, after the cache was flushed"
    )
    return 0


def break_down(record: dict, events: list[dict]) -> dict:
    cases = [entry["seconds"] for entry in record["spent"]]
    warm_up, timed, whole = (sum(seconds.get(k, 0.0) for seconds in cases) for k in ("warm-up", "timed", "all"))
    phases = _phases(events)
    first_calls = _first_calls_s(record)
    builds = first_calls + sum(seconds.get("build", 0.0) for seconds in cases)
    checks = phases.get("check", 0.0) - first_calls
    at = {e["event"]: e["t"] for e in events if e["event"] in ("plan", "machine", "complete")}
    profile = phases.get("profile", 0.0)
    after_groups = at["complete"] - max(e["t"] for e in events if e["event"] == "spent")
    measuring = warm_up + timed
    case = {
        "warm-up": warm_up,
        "timed rounds": timed,
        "checks": checks,
        "oracles for the timed results, inputs, the rest": whole - builds - measuring - checks,
        "builds (not counted)": builds,
    }
    command = {
        **{k: v for k, v in case.items() if "not counted" not in k},
        "profiled calls, and what is built for them again": profile,
        "the profiler's worker: start, imports (not counted)": after_groups - profile,
        "the machine's ceilings, once per machine (not counted)": at["machine"] - at["plan"],
        "builds (not counted)": builds,
        "start, imports (not counted)": at["plan"],
    }
    return {
        "case": _share(measuring, case),
        "command": _share(measuring, command),
        "windows_s": _windows_s(record),
    }


def _share(measuring: float, parts: dict[str, float]) -> dict:
    after = sum(seconds for name, seconds in parts.items() if "not counted" not in name)
    return {"share": measuring / after, "after_s": after, "parts_s": parts}


def _phases(events: list[dict]) -> dict[str, float]:
    """Seconds between the begin and the end of each kind of phase; the peer's check runs inside the check."""
    open_phases: list[float] = []  # when each began
    spent: dict[str, float] = {}
    for event in events:
        if event["event"] == "begin":
            open_phases.append(event["t"])
        elif event["event"] == "fault":  # a lost worker sends no end
            open_phases.clear()
        elif event["event"] == "end" and open_phases:
            took = event["t"] - open_phases.pop()
            if not open_phases:
                spent[event["phase"]] = spent.get(event["phase"], 0.0) + took
    return spent


def _first_calls_s(record: dict) -> float:
    """How much longer the first calls of the implementations took than ordinary ones."""
    return sum(r["derived"]["build_s"] or 0.0 for r in derive(record)["results"])


def _windows_s(record: dict) -> float:
    return sum(
        sum(entry["samples_us"]) * entry.get("calls", 1) / 1e6 for r in record["results"] for entry in r["times"]
    )


if __name__ == "__main__":
    sys.exit(main())
