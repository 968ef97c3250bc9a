"""Op files with random mistakes: does kernellab neither crash nor hang, and does it name the culprit?

    python benchmarks/mistakes.py OUT [--count 200] [--seed 0] [--jobs 2] [--every] [--only WORD]

Runs `klab check FILE --device cpu --timeout 5 --json` on each file that tests/support/mistakes.py writes, in a process
of its own. Writes OUT/mistakes.json, and each file with the output of its command; prints a table by mistake. `--every`
takes each mistake once instead of drawing mistakes at random.

The outer deadline is 75 s, the sum of what a file may take: five times --timeout for its own code (25 s; the reference
may take as long, but no file needs both), --timeout for each of two implementations (10 s), and four starts of a worker
(importing torch takes 3 s on an idle machine, 8 s on a busy one), with 8 s to spare.
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
    """Runs klab on one file; `violations` lists which expectations were not met."""
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
    seconds = round(time.monotonic() - began, 2)
    errors = (folder / "stderr").read_text(errors="replace")
    violations = judge(mistake, code, (folder / "stdout").read_bytes(), errors)
    return {"name": mistake.name, "code": code, "seconds": seconds, "violations": violations}


def judge(mistake: Mistake, code: int | None, out: bytes, err: str) -> list[str]:
    """The expectations that a run did not meet."""
    if code is None:
        return [f"hung: no end within {DEADLINE_S:g} s"]
    violations = []
    if code not in (0, 1, 2, 3):
        violations.append(f"crashed: exit code {code}")
    if "kernellab/cli" in err or "kernellab failed" in err:
        violations.append("crashed: kernellab's own failure on standard error")
    if code not in mistake.codes:
        violations.append(f"exit code {code}, should be {' or '.join(map(str, mistake.codes))}")
    if len(err) > 20_000:
        violations.append(f"{len(err)} characters on standard error")
    results: dict[str, dict[str, Any]] = {}
    if code in (0, 1, 3):
        try:
            record = json.loads(out, parse_constant=lambda name: 1 / 0)
            results = {r["impl"]: r for r in record["results"]}
        except (ValueError, KeyError, ZeroDivisionError):
            return [*violations, "the record is not JSON"]
    for expected in mistake.expected:
        violations += _check_expected(expected, results, err)
    for name in mistake.right:
        status = results[name]["derived"] if name in results else {"status": "absent", "reason": ""}
        if status["status"] != "ok":
            violations.append(f"blames {name}, which is right: {status['status']}: {str(status['reason'])[:200]}")
    return violations


def _check_expected(expected: Expected, results: dict[str, dict[str, Any]], err: str) -> list[str]:
    if expected.culprit == "file":
        missing = [w for w in expected.words if w.lower() not in err.lower()]
        return [f"standard error lacks {missing}: {err.strip()[-300:]}"] if missing else []
    violations = []
    for name in results if expected.culprit == "reference" else [expected.culprit]:
        if name not in results:
            violations.append(f"{name} is not in the record")
            continue
        derived = results[name]["derived"]
        text = " ".join([str(derived["reason"]), *(g["detail"] for g in results[name]["guards"])])
        if derived["status"] not in expected.statuses:
            violations.append(
                f"{name} is {derived['status']}, should be {' or '.join(expected.statuses)}: {text[:200]}"
            )
        elif missing := [w for w in expected.words if w.lower() not in text.lower()]:
            violations.append(f"{name}, {derived['status']}, lacks {missing}: {text[:200]}")
        if "kernellab failed" in text:
            violations.append(f"{name}: kernellab took the blame: {text[:200]}")
        if len(str(derived["reason"])) > 2000:
            violations.append(f"{name}: a reason of {len(derived['reason'])} characters")
    return violations


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

    def run_file(numbered: tuple[int, Mistake]) -> dict[str, Any]:
        number, mistake = numbered
        seed = args.seed + number
        outcome = run(mistake, args.out.resolve() / f"{seed:04}", cache=cache) | {"seed": seed}
        mark = "ok" if not outcome["violations"] else "VIOLATION " + "; ".join(outcome["violations"])
        print(f"{seed:5} {outcome['seconds']:6.1f} s  code {outcome['code']}  {outcome['name']}: {mark}", flush=True)
        return outcome

    with ThreadPoolExecutor(args.jobs) as pool:
        outcomes = list(pool.map(run_file, chosen))
    took = time.monotonic() - began
    summary = table(outcomes)
    (args.out / "mistakes.json").write_text(json.dumps({"took_s": took, "files": outcomes, "table": summary}, indent=1))
    show(summary)
    failed = [outcome for outcome in outcomes if outcome["violations"]]
    slowest = max(outcome["seconds"] for outcome in outcomes)
    print(f"\n{len(outcomes)} files in {took:.0f} s, the slowest {slowest:.1f} s (limit {DEADLINE_S:g} s)")
    mark = "met   " if not failed else "MISSED"
    print(f"  {mark} never crash, never hang, always name the culprit: {len(failed)} violations")
    return 1 if failed else 0


def table(outcomes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """By mistake: files, exit codes, longest time, violations. A file with two mistakes is in two rows."""
    rows = []
    for name in sorted({name for outcome in outcomes for name in _mistakes(outcome)}):
        files = [outcome for outcome in outcomes if name in _mistakes(outcome)]
        rows.append(
            {
                "name": name,
                "files": len(files),
                "codes": " ".join(sorted({str(file["code"]) for file in files})),
                "longest_s": max(file["seconds"] for file in files),
                "violations": sum(bool(file["violations"]) for file in files),
            }
        )
    return rows


def _mistakes(outcome: dict[str, Any]) -> list[str]:
    """`an implementation: A + B (as torch)` names two mistakes."""
    place, _, names = outcome["name"].removesuffix(" (as torch)").partition(": ")
    return [f"{place}: {name}" for name in names.split(" + ")] if names else [place]


def show(rows: list[dict[str, Any]]) -> None:
    width = max(len(row["name"]) for row in rows)
    print(f"\n{'mistake':{width}}  files  codes  longest  violations")
    for row in rows:
        head = f"{row['name']:{width}}  {row['files']:5}  {row['codes']:>5}  {row['longest_s']:5.1f} s"
        print(f"{head}  {row['violations'] or '–':>10}")


if __name__ == "__main__":
    sys.exit(main())
