"""The battery of every shipped op, and its implementations under compute-sanitizer, as Markdown tables.

    python benchmarks/battery.py OUT_DIR [--sanitize] [--quick] [--device cpu] > tables.md

One `klab check` per op, each a process of its own; with `--sanitize` one more per op under compute-sanitizer, all of
these at the same time. Records are kept in OUT_DIR; an op whose record exists is not run again.
Goal: every trial passes, and no tool finds anything in an implementation's own kernels. Otherwise the exit code is 1.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))

from kernellab.declaration.targets import shipped_names
from kernellab.record.reading import load
from kernellab.record.verdict import derive, exit_code

_SANITIZE = ["--declared", "--sanitize"]  # the sanitizer has trials of its own: no battery is needed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--sanitize", action="store_true", help="under compute-sanitizer too; needs a GPU")
    parser.add_argument("--quick", action="store_true", help="small batteries")
    parser.add_argument("--device", help="cpu, cuda or cuda:1")
    parser.add_argument("--ops", default=",".join(shipped_names()), help="only these, by commas")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    ops = args.ops.split(",")
    options = ["--quick"] if args.quick else []
    options += ["--device", args.device] if args.device else []
    # One after the other: the largest trials need the memory of a whole GPU. Those of compute-sanitizer are small.
    records = [derive(_record(args.out, op, "", options)) for op in ops]
    with ThreadPoolExecutor() as pool:
        jobs = [pool.submit(_record, args.out, op, "-sanitized", options + _SANITIZE) for op in ops if args.sanitize]
        sanitized = [derive(job.result()) for job in jobs]
    _stamp(records[0])
    _table(("op", "impl", "tried", "passed", "outside", "worst error", "peer", "at"), _batteries(records))
    if args.sanitize:
        print()
        _table(("op", "impl", "tool", "cases", "findings", "seconds"), _sanitized(sanitized))
    records += sanitized
    failures = [line for record in records for line in _describe_failures(record)]
    print(*(f"\n- {line}" for line in failures), sep="")
    return 1 if failures or any(exit_code(record) for record in records) else 0


def _record(out: Path, op: str, suffix: str, options: list[str]) -> dict[str, Any]:
    folder = out / f"{op}{suffix}"
    if not (folder / "run.json").exists():
        command = [sys.executable, "-m", "kernellab", "check", op, "--out", str(folder), *options]
        env = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
        done = subprocess.run(command, env=env, stdout=subprocess.PIPE, text=True)
        (out / f"{op}{suffix}.txt").write_text(done.stdout)
        if done.returncode not in (0, 1, 3):
            raise SystemExit(f"klab check {op} ended with exit code {done.returncode}")
    return load(folder)


def _stamp(record: dict[str, Any]) -> None:
    env, on_cpu = record["environment"], record["machine"]["device"] == "cpu"
    versions = ", ".join(f"{k} {v}" for k, v in env["packages"].items() if v)
    name = f"{env['cpu']['name']}, {env['cpu']['cores']} cores" if on_cpu else env["gpus"][0]["name"]
    print(f"- machine: {name}" + ("" if on_cpu else f", driver {env['gpus'][0]['driver']}"))
    print(f"- date: {record['began'][:10]}")
    print(f"- versions: Python {env['python']}, {versions}")
    print()


def _table(head: tuple[str, ...], rows: list[tuple[Any, ...]]) -> None:
    print("| " + " | ".join(head) + " |")
    print("|" + "---|" * len(head))
    for row in rows:
        print("| " + " | ".join(str(cell).replace("|", "\\|") for cell in row) + " |")


def _batteries(records: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    rows = []
    for summary in (summary for record in records for summary in record["batteries"]):
        worst = summary["worst"]
        error, peer_error, at = "–", "–", "–"
        if worst:
            peer = worst["peer"]
            error, at = f"{worst['errors']['max']:.2g}", f"{worst['kind']}: {worst['label']}"
            peer_error = f"{peer['impl']}'s {peer['max']:.2g}" if peer["max"] is not None else "–"
        impl = summary["impl"] + (" (interpreter)" if summary["interpreter"] else "")
        outside = sum(summary["outside"].values()) + sum(summary["unknown"].values())
        rows.append((summary["op"], impl, summary["tried"], summary["passed"], outside, error, peer_error, at))
    return rows


def _sanitized(records: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    rows = []
    for outcome in (outcome for record in records for outcome in record["sanitized"]):
        own = [f for f in outcome["findings"] if f["own"]]
        findings = "cannot tell" if outcome["status"] == "unknown" else str(len(own))
        others = len(outcome["findings"]) - len(own)
        findings += f" ({others} in other kernels)" if others else ""
        seconds = f"{outcome['seconds']:.0f}"
        rows.append((outcome["op"], outcome["impl"], outcome["tool"], outcome["cases"], findings, seconds))
    return rows


def _describe_failures(record: dict[str, Any]) -> list[str]:
    lines = [
        f"{summary['op']} {summary['impl']}: {f['status']}: {f['kind']}: {f['label']}: {f['reason']}"
        for summary in record["batteries"]
        for f in summary["failures"]
    ]
    return lines + [
        f"{outcome['op']} {outcome['impl']}: {outcome['status']}: {outcome['tool']}: {outcome['reason']}"
        for outcome in record["sanitized"]
        if outcome["status"] != "ok"
    ]


if __name__ == "__main__":
    sys.exit(main())
