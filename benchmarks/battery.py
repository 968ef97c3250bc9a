"""Every shipped op's battery, and its ways under compute-sanitizer, as Markdown tables.

    python benchmarks/battery.py OUT_DIR [--sanitize] [--quick] [--device cpu] > tables.md

One `klab check` per op, each a process of its own; with `--sanitize` one more per op under compute-sanitizer, all of
these at the same time. Their records are kept in OUT_DIR and read instead of run again.
Promised: every trial passes, and no tool finds anything in a way's own kernels. Exit code 1 where that is not so.
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

_SANITIZE = ["--declared", "--sanitize"]  # the cases it runs are its own, whatever else is checked


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
    # One after the other: the largest cases want the memory of a whole GPU. compute-sanitizer's are small.
    records = [derive(_record(args.out, op, "", options)) for op in ops]
    with ThreadPoolExecutor() as pool:
        under = [pool.submit(_record, args.out, op, "-sanitized", options + _SANITIZE) for op in ops if args.sanitize]
        sanitized = [derive(one.result()) for one in under]
    _stamp(records[0])
    _table(("op", "way", "tried", "passed", "outside", "worst error", "beside", "at"), _batteries(records))
    if args.sanitize:
        print()
        _table(("op", "way", "tool", "cases", "findings", "seconds"), _sanitized(sanitized))
    records += sanitized
    bad = [line for record in records for line in _bad(record)]
    print(*(f"\n- {line}" for line in bad), sep="")
    return 1 if bad or any(exit_code(record) for record in records) else 0


def _record(out: Path, op: str, end: str, options: list[str]) -> dict[str, Any]:
    folder = out / f"{op}{end}"
    if not (folder / "run.json").exists():
        command = [sys.executable, "-m", "kernellab", "check", op, "--out", str(folder), *options]
        env = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
        done = subprocess.run(command, env=env, stdout=subprocess.PIPE, text=True)
        (out / f"{op}{end}.txt").write_text(done.stdout)
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
    for one in (one for record in records for one in record["batteries"]):
        worst = one["worst"]
        error, beside, at = "–", "–", "–"
        if worst:
            peer = worst["peer"]
            error, at = f"{worst['errors']['max']:.2g}", f"{worst['kind']}: {worst['label']}"
            beside = f"{peer['impl']}'s {peer['max']:.2g}" if peer["max"] is not None else "–"
        way = one["impl"] + (" (interpreter)" if one["interpreter"] else "")
        outside = sum(one["outside"].values()) + sum(one["unknown"].values())
        rows.append((one["op"], way, one["tried"], one["passed"], outside, error, beside, at))
    return rows


def _sanitized(records: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    rows = []
    for one in (one for record in records for one in record["sanitized"]):
        own = [f for f in one["findings"] if f["own"]]
        found = "cannot tell" if one["status"] == "unknown" else str(len(own))
        others = len(one["findings"]) - len(own)
        found += f" ({others} in others' kernels)" if others else ""
        rows.append((one["op"], one["impl"], one["tool"], one["cases"], found, f"{one['seconds']:.0f}"))
    return rows


def _bad(record: dict[str, Any]) -> list[str]:
    lines = [
        f"{one['op']} {one['impl']}: {f['status']}: {f['kind']}: {f['label']}: {f['reason']}"
        for one in record["batteries"]
        for f in one["failures"]
    ]
    return lines + [
        f"{one['op']} {one['impl']}: {one['status']}: {one['tool']}: {one['reason']}"
        for one in record["sanitized"]
        if one["status"] != "ok"
    ]


if __name__ == "__main__":
    sys.exit(main())
