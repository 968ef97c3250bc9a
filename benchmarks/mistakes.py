"""Op files with random mistakes: does kernellab survive each, end in time, and name the culprit?

    python benchmarks/mistakes.py OUT [--count 200] [--seed 0] [--jobs 2] [--every] [--only WORD]

Runs `klab check FILE --device cpu --timeout 5 --json` on each file that
tests/support/mistakes.py writes, in a process of its own.
Writes OUT/mistakes.json and, for what failed, the file and what was said; prints a table by mistake. `--every` takes
each mistake once instead of drawing them at random.

The outer deadline is 75 s, the sum of what a file may take: its own code five times --timeout (25 s; the reference has
as much, and a file that needs both does not get there), two implementations --timeout each (10 s), and four starts of a
worker (importing torch: 3 s alone, 8 s on a busy machine) with 8 s to spare.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests")]

from support.mistakes import FILE, Expected, Mistake, all_mistakes, generate

TIMEOUT_S = 5
DEADLINE_S = 75.0


def run(mistake: Mistake, folder: Path, *, cache: Path, timeout_s: float = TIMEOUT_S) -> dict[str, Any]:
    """One file through klab; `violations` says what of the promise was broken."""
    folder.mkdir(parents=True)
    file = folder / FILE
    mistake.write(file)
    command = [sys.executable, "-m", "kernellab", mistake.verb, FILE, "--device", "cpu", "--timeout", str(timeout_s)]
    command += ["--json", "--out", "run", *(["--impl", ",".join(mistake.impls)] if mistake.impls else [])]
    if mistake.verb == "check":
        command.append("--declared")  # the battery would only repeat what a mistake does
    if mistake.verb == "run":
        command += ["--seconds", "0.05", "--only-times"]
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "KERNELLAB_CACHE": str(cache)}
    began = time.monotonic()
    with (folder / "stdout").open("wb") as out, (folder / "stderr").open("wb") as err:
        process = subprocess.Popen(command, cwd=folder, env=env, stdout=out, stderr=err, stdin=subprocess.DEVNULL)
        try:
            code: int | None = process.wait(DEADLINE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            code = None
    took = time.monotonic() - began
    said = (folder / "stderr").read_text(errors="replace")
    violations = judge(mistake, code, (folder / "stdout").read_bytes(), said)
    return {"name": mistake.name, "code": code, "seconds": round(took, 2), "violations": violations}


def judge(mistake: Mistake, code: int | None, out: bytes, err: str) -> list[str]:
    """What of the promise a run broke."""
    if code is None:
        return [f"hung: no end within {DEADLINE_S:g} s"]
    found = []
    if code not in (0, 1, 2, 3):
        found.append(f"crashed: exit code {code}")
    if "kernellab/cli" in err or "kernellab failed" in err:
        found.append("crashed: kernellab's own failure on standard error")
    if code not in mistake.codes:
        found.append(f"exit code {code}, should be {' or '.join(map(str, mistake.codes))}")
    if len(err) > 20_000:
        found.append(f"{len(err)} characters on standard error")
    results: dict[str, dict[str, Any]] = {}
    if code in (0, 1, 3):
        try:
            record = json.loads(out, parse_constant=lambda name: 1 / 0)
            results = {r["impl"]: r for r in record["results"]}
        except (ValueError, KeyError, ZeroDivisionError):
            return [*found, "the record is no JSON"]
    for expected in mistake.expected:
        found += _not_named(expected, results, err)
    for name in mistake.right:
        status = results[name]["derived"] if name in results else {"status": "absent", "reason": ""}
        if status["status"] != "ok":
            found.append(f"blames {name}, which is right: {status['status']}: {str(status['reason'])[:200]}")
    return found


def _not_named(expected: Expected, results: dict[str, dict[str, Any]], err: str) -> list[str]:
    if expected.culprit == "file":
        missing = [w for w in expected.words if w.lower() not in err.lower()]
        return [f"standard error lacks {missing}: {err.strip()[-300:]}"] if missing else []
    found = []
    for name in results if expected.culprit == "reference" else [expected.culprit]:
        if name not in results:
            found.append(f"{name} is not in the record")
            continue
        derived = results[name]["derived"]
        text = " ".join([str(derived["reason"]), *(g["detail"] for g in results[name]["guards"])])
        if derived["status"] not in expected.statuses:
            found.append(f"{name} is {derived['status']}, should be {' or '.join(expected.statuses)}: {text[:200]}")
        elif missing := [w for w in expected.words if w.lower() not in text.lower()]:
            found.append(f"{name}, {derived['status']}, lacks {missing}: {text[:200]}")
        if "kernellab failed" in text:
            found.append(f"{name}: kernellab took the blame: {text[:200]}")
        if len(str(derived["reason"])) > 2000:
            found.append(f"{name}: a reason of {len(derived['reason'])} characters")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--every", action="store_true", help="each mistake once")
    parser.add_argument("--only", default="", help="only mistakes with this in their name")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    drawn = all_mistakes(args.seed) if args.every else [generate(args.seed + n) for n in range(args.count)]
    chosen = [(n, mistake) for n, mistake in enumerate(drawn) if args.only in mistake.name]
    cache = args.out.resolve() / "cache"
    began = time.monotonic()

    def one(numbered: tuple[int, Mistake]) -> dict[str, Any]:
        number, mistake = numbered
        seen = run(mistake, args.out.resolve() / f"{args.seed + number:04}", cache=cache) | {"seed": args.seed + number}
        mark = "ok" if not seen["violations"] else "VIOLATION " + "; ".join(seen["violations"])
        print(f"{seen['seed']:5} {seen['seconds']:6.1f} s  code {seen['code']}  {seen['name']}: {mark}", flush=True)
        return seen

    with ThreadPoolExecutor(args.jobs) as pool:
        seen = list(pool.map(one, chosen))
    took = time.monotonic() - began
    summary = table(seen)
    (args.out / "mistakes.json").write_text(json.dumps({"took_s": took, "files": seen, "table": summary}, indent=1))
    show(summary)
    bad = [s for s in seen if s["violations"]]
    slowest = max(s["seconds"] for s in seen)
    print(f"\n{len(seen)} files in {took:.0f} s, the slowest {slowest:.1f} s (limit {DEADLINE_S:g} s)")
    print(
        f"  {'kept  ' if not bad else 'MISSED'} never crash, never hang, always name the culprit: {len(bad)} violations"
    )
    return 1 if bad else 0


def table(seen: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """By mistake: how many files, their exit codes, the longest time, the violations. A file with two counts twice."""
    rows = []
    for name in sorted({name for s in seen for name in _mistakes(s)}):
        of = [s for s in seen if name in _mistakes(s)]
        rows.append(
            {
                "name": name,
                "files": len(of),
                "codes": " ".join(sorted({str(s["code"]) for s in of})),
                "longest_s": max(s["seconds"] for s in of),
                "violations": sum(bool(s["violations"]) for s in of),
            }
        )
    return rows


def _mistakes(seen: dict[str, Any]) -> list[str]:
    """`an implementation: one + another (as torch)` is two mistakes."""
    where, _, what = seen["name"].removesuffix(" (as torch)").partition(": ")
    return [f"{where}: {one}" for one in what.split(" + ")] if what else [where]


def show(rows: list[dict[str, Any]]) -> None:
    wide = max(len(row["name"]) for row in rows)
    print(f"\n{'mistake':{wide}}  files  codes  longest  violations")
    for row in rows:
        head = f"{row['name']:{wide}}  {row['files']:5}  {row['codes']:>5}  {row['longest_s']:5.1f} s"
        print(f"{head}  {row['violations'] or '–':>10}")


if __name__ == "__main__":
    sys.exit(main())
