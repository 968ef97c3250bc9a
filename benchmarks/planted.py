"""Are planted bugs found behind the limits of a domain, and are their correct twins left alone?

    python benchmarks/planted.py [--seeds 0,1,2] [--quick] [--only minimums,dtypes] [--klab] [--jobs 2]

Each file of benchmarks/planted declares ops whose implementations take some inputs only: multiples of 128, rows of at
least 256, 16-bit types, contiguous inputs. An implementation called `wrong-…` has one fault; `right` is the same code
without it. The battery runs once per seed. A twin gets all trials. A bug is tried until it is found, which means until
a trial fails at which its twin passes; `--whole` goes on after that. `--hints FILE`, the `--json` of an earlier run,
puts first the trial of the full battery that found a bug then, whatever the seed was. `--klab` runs `klab check --json`
instead, in processes of its own.

Printed: for each op how many bugs were found and at how many trials, then what was missed and which twin was accused.
A bug that is *imprecise* at some trial and wrong at none is printed as such: it is not called right, nor is it found.
A twin may be imprecise: no one is accused. Exit code 1 where a bug was missed or a twin accused.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HERE = ROOT / "benchmarks" / "planted"
sys.path.insert(0, str(ROOT / "src"))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", default="0", metavar="A,B", help="seeds of the values")
    parser.add_argument("--quick", action="store_true", help="the small battery")
    parser.add_argument("--only", metavar="A,B", help="only these files")
    parser.add_argument("--whole", action="store_true", help="all trials of a bug, also after it was found")
    parser.add_argument("--hints", type=Path, metavar="FILE", help="try first what found a bug in an earlier run")
    parser.add_argument("--klab", action="store_true", help="by klab check, instead of in this process")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every summary there")
    args = parser.parse_args()
    names = args.only.split(",") if args.only else sorted(path.stem for path in HERE.glob("*.py"))
    hints = json.loads(args.hints.read_text()) if args.hints else []
    work = [
        (name, seed, args.quick, args.klab, args.whole, hints)
        for name in names
        for seed in map(int, args.seeds.split(","))
    ]
    with ProcessPoolExecutor(args.jobs) as pool:
        rows = []
        for of_file in pool.map(check_file, work):
            rows += of_file
            if args.json:  # complete so far, should the rest be interrupted
                args.json.write_text(json.dumps(rows, indent=1))
    missed = [row for row in rows if row["bug"] and not row["failed"] and not row["imprecise"]]
    imprecise = [row for row in rows if row["bug"] and not row["failed"] and row["imprecise"]]
    accused = [row for row in rows if not row["bug"] and (row["failed"] or not row["tried"])]
    for key in dict.fromkeys((row["file"], row["op"]) for row in rows):
        of_op = [row for row in rows if (row["file"], row["op"]) == key]
        bugs = [row for row in of_op if row["bug"]]
        twins = [row for row in of_op if not row["bug"]]
        print(f"{key[0]} {key[1]}: {sum(bool(b['failed']) for b in bugs)} of {len(bugs)} found", end=", ")
        print(f"twin: {max(row['tried'] for row in twins)} trials, imprecise at", end=" ")
        print(f"{max(row['imprecise'] for row in twins)}, {max(row['seconds'] for row in of_op):.1f} s a seed")
    for row in missed:
        print(f"MISSED {row['file']} {row['op']} {row['impl']}, seed {row['seed']}: {row['tried']} trials")
    for row in imprecise:
        print(f"IMPRECISE {row['file']} {row['op']} {row['impl']}, seed {row['seed']}: at {row['imprecise']} trials")
    for row in accused:
        print(f"ACCUSED {row['file']} {row['op']} {row['impl']}, seed {row['seed']}: {row['first']}")
    bugs = {(row["file"], row["op"], row["impl"]) for row in rows if row["bug"]}
    twins = {(row["file"], row["op"], row["impl"]) for row in rows if not row["bug"]}
    print(f"{len(bugs)} bugs in {len(names)} files, {len(twins)} twins, {len(args.seeds.split(','))} seeds: ", end="")
    print(f"{len(missed)} missed, {len(imprecise)} imprecise, {len(accused)} accused")
    return 1 if missed or accused else 0


def check_file(work: tuple[str, int, bool, bool, bool, list[dict]]) -> list[dict]:
    """A row per implementation of the file's ops."""
    name, seed, quick, klab, whole, hints = work
    began = time.monotonic()
    first = {(row["op"], row["impl"]): row["found_at"] for row in hints if row["file"] == name and row["found_at"]}
    summaries = by_klab(name, seed, quick) if klab else in_process(name, seed, quick, whole, first)
    seconds = time.monotonic() - began
    of_twin = {
        summary["op"]: {failure["label"] for failure in summary["failures"]}
        for summary in summaries
        if summary["impl"] == "right"
    }
    rows = []
    for summary in summaries:
        bug = summary["impl"].startswith("wrong-")
        if not bug and summary["impl"] != "right":
            continue
        failures = [f for f in summary["failures"] if not bug or f["label"] not in of_twin[summary["op"]]]
        row = {
            "file": name,
            "op": summary["op"],
            "impl": summary["impl"],
            "seed": seed,
            "bug": bug,
            "tried": summary["tried"],
            "failed": len(failures),
            "imprecise": summary["imprecise"],
            "first": next((f"{f['label']}: {f['reason']}" for f in failures), "nothing was tried"),
            "kinds": sorted({f["kind"] for f in failures}),
            "found_at": summary.get("found_at"),
            "unknown": summary["unknown"],
            "seconds": round(seconds, 1),
        }
        rows.append(row)
    return rows


def in_process(name: str, seed: int, quick: bool, whole: bool, first: dict[tuple[str, str], str]) -> list[dict]:
    """The summaries of the battery, as `kl.check` has them, and for each bug the key of the trial that found it."""
    import torch

    from kernellab.checking.confirmation import examine_and_confirm
    from kernellab.checking.examiner import Examiner
    from kernellab.record.batteries import summaries
    from kernellab.record.statuses import FAILED

    torch.set_num_threads(1)
    cpu = torch.device("cpu")
    entries = []
    found: dict[tuple[str, str], str] = {}
    for op, pairs in trials_of(name, quick):
        examiner = Examiner(op, seed=seed, device=cpu)
        hints = {impl: key for (of_op, impl), key in first.items() if of_op == op.name}
        everything = next(pairs for other, pairs in trials_of(name, False) if other.name == op.name) if hints else []
        hinted = [
            (-1 - number, trial, impl)
            for number, trial, impl in everything
            if hints.get(impl.name) == trial.key or (impl.name == "right" and trial.key in hints.values())
        ]
        failed_of_twin = None  # the number of the last trial at which the twin failed: it comes first at each
        for number, trial, impl in [*hinted, *pairs]:
            if (op.name, impl.name) in found and not whole:
                continue
            outcome = examine_and_confirm(functools.partial(examiner.examine, impl), trial)
            if outcome is None:
                continue
            entry = outcome.at_trial(op=op.name, impl=impl.name, number=number, trial=trial, interpreted=False)
            entries.append(entry)
            if entry["status"] in FAILED:
                if impl.name == "right":
                    failed_of_twin = number
                elif number != failed_of_twin:
                    found.setdefault((op.name, impl.name), trial.key)
    return [{**summary, "found_at": found.get((summary["op"], summary["impl"]))} for summary in summaries(entries)]


@functools.cache
def trials_of(name: str, quick: bool) -> list[tuple]:
    """For each op of the file: its trials with the implementations that get them, the twin first at each."""
    from kernellab.declaration.targets import Target, load
    from kernellab.trials.battery import impl_batteries
    from kernellab.trials.selection import pair_with_impls

    found = []
    for op in load(Target(name, file=str(HERE / f"{name}.py"))).values():
        impls = [op["right"], *(impl for impl in op.impls.values() if impl.name.startswith("wrong-"))]
        trials = impl_batteries(op, impls[:1], "cpu", quick=quick)["right"]  # a bug's domain is that of its twin
        found.append((op, list(pair_with_impls({impl.name: trials for impl in impls}, impls))))
    return found


def by_klab(name: str, seed: int, quick: bool) -> list[dict]:
    command = [sys.executable, "-m", "kernellab", "check", str(HERE / f"{name}.py"), "--json", "--seed", str(seed)]
    command += ["--device", "cpu", "--impl", "right,wrong-*", *(["--quick"] if quick else [])]
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(command, capture_output=True, text=True, env=env)
    return json.loads(done.stdout)["batteries"]


if __name__ == "__main__":
    sys.exit(main())
