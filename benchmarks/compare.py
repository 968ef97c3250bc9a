"""Does `klab compare` call equal code slower, and does it find a slowdown of 3 %? Real records, and simulated ones.

    python benchmarks/compare.py --runs 80 --out DIR [--device cpu] [--seconds 0.1] [--limit S]
    python benchmarks/compare.py --simulate 200 [--out DIR]

With `--runs`, each record has ten results and comes from processes of its own. Records that follow one another form a
pair: as they are, and with the slowed GeLU in place of the GeLU in the second one. The variation from run to run is
taken from `klab doctor --aa`, which is run first if it never was on this machine. If DIR already holds runs, only the
missing ones are added, and `--limit` ends the command early; so long measurements can be made in several goes.
`--simulate` draws records whose times vary from run to run by a known amount. Writes compare.json to DIR.
"""

from __future__ import annotations

import argparse
import copy
import json
import math
import os
import random
import shutil
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT / "src"), os.environ.get("PYTHONPATH")]))

from kernellab.comparison.compare import Comparison, Side, compare
from kernellab.machine.environment import gpus
from kernellab.machine.variation import Variation, load_variation
from kernellab.record.journal import empty_record
from kernellab.record.reading import load
from kernellab.record.schema import Record
from kernellab.record.verdict import derive
from kernellab.remeasuring.batches import Batch
from kernellab.remeasuring.code import Code
from kernellab.remeasuring.remeasure import Limits, Versions, remeasure

OPS = ROOT / "benchmarks" / "compare_op.py"
OP, IMPL, SLOWED = "gelu", "shipped", "slowed"
IMPLS = "shipped,pytorch,slowed"
PLANTED = 1.03
SECONDS_OF_VARIATION, RUNS_OF_VARIATION = 0.15, 10


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=0, help="records in all; two form a pair")
    parser.add_argument("--simulate", type=int, default=0, help="comparisons to simulate for each variation")
    parser.add_argument("--out", type=Path, default=Path("compare"))
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cuda" if gpus() else "cpu")
    parser.add_argument("--seconds", type=float, default=0.1, help="per implementation")
    parser.add_argument("--limit", type=float, default=math.inf, help="begin no run after this many seconds")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    document = {}
    if args.simulate:
        document["simulated"] = simulate_all(args.simulate)
        document["simulated_reruns"] = simulate_reruns(max(1, args.simulate // 5))
    if args.runs:
        deadline = time.monotonic() + args.limit
        records = make_records(args, deadline)
        if len(records) >= 2:
            document["measured"] = measured_pairs(records)
    (args.out / "compare.json").write_text(json.dumps(document, indent=1))
    return 0 if document else 2


# Real records ------------------------------------------------------------------------------------------


def klab(*words: str, log: Path) -> int:
    with log.open("a") as file:
        command = [sys.executable, "-m", "kernellab", *words]
        env = {**os.environ, "KERNELLAB_REPORT": "0"}
        return subprocess.run(command, stdout=file, stderr=subprocess.STDOUT, cwd=ROOT, env=env).returncode


def make_records(args: argparse.Namespace, deadline: float) -> list[Record]:
    """The complete records of the folder, after adding those that are missing."""
    log = (args.out / "klab.log").resolve()
    records = []
    for number in range(1, args.runs + 1):
        folder = (args.out / f"run-{number:03}").resolve()
        if not is_complete(folder):
            if time.monotonic() > deadline:
                break
            shutil.rmtree(folder, ignore_errors=True)  # of a run that was killed
            began = time.monotonic()
            options = (
                "--impl",
                IMPLS,
                "--device",
                args.device,
                "--seconds",
                str(args.seconds),
                "--only-times",
                "--out",
                str(folder),
            )
            code = klab("bench", str(OPS), *options, log=log)
            print(f"run {number} of {args.runs}: {time.monotonic() - began:.0f} s, exit code {code}", file=sys.stderr)
        if is_complete(folder):
            records.append(load(folder))
    if records and load_variation(records[0]["machine"]["class"]) is None:
        options = ("--runs", str(RUNS_OF_VARIATION), "--seconds", str(SECONDS_OF_VARIATION), "--device", args.device)
        klab("doctor", "--aa", *options, log=log)
    return records


def is_complete(folder: Path) -> bool:
    return (folder / "run.json").exists() and load(folder)["complete"]


def without_slowed(record: Record) -> Record:
    return {**record, "results": [result for result in record["results"] if result["impl"] != SLOWED]}


def planted(record: Record) -> Record:
    """The record with the slowed implementation in place of the one that it slows."""
    slowed = next(result for result in record["results"] if (result["op"], result["impl"]) == (OP, SLOWED))
    results = [
        {**slowed, "impl": IMPL} if (result["op"], result["impl"]) == (OP, IMPL) else result
        for result in without_slowed(record)["results"]
    ]
    return {**record, "results": results}


def measured_pairs(records: list[Record]) -> dict:
    """Every two records that follow one another, compared as they are and with the slowdown."""
    pairs = list(zip(records[::2], records[1::2], strict=False))
    machine = records[0]["machine"]["class"]
    variation = load_variation(machine)
    equal = [compared(without_slowed(a), without_slowed(b), variation) for a, b in pairs]
    slower = [compared(without_slowed(a), planted(b), variation) for a, b in pairs]
    found = [pair_of(comparison, OP, IMPL) for comparison in slower]
    document = {
        "machine": machine,
        "date": time.strftime("%Y-%m-%d"),
        "versions": {**records[0]["environment"]["packages"], "python": records[0]["environment"]["python"]},
        "runs": len(records),
        "pairs": len(pairs),
        "variation": variation,
        "without_slower": sum(not comparison.with_verdict("slower") for comparison in equal),
        "without_faster": sum(not comparison.with_verdict("faster") for comparison in equal),
        "found": sum(pair.verdict == "slower" for pair in found),
        "others_slower": sum(len(comparison.with_verdict("slower")) for comparison in slower)
        - sum(pair.verdict == "slower" for pair in found),
        "measured_slowdown": statistics.median(pair.ratio for pair in found) - 1,
        "results": spread_of_results(records, equal),
    }
    show_measured(document)
    return document


def show_measured(document: dict) -> None:
    pairs, slowdown = document["pairs"], f"{100 * document['measured_slowdown']:+.2f} %"
    print(f"{document['machine']}: {document['runs']} records of ten results, {pairs} pairs")
    print(
        f"  equal code: no `slower` in {document['without_slower']} of {pairs} pairs (goal: 39 of 40), "
        f"no `faster` in {document['without_faster']}"
    )
    print(
        f"  3 % more work, measured {slowdown}: `slower` in {document['found']} of {pairs} pairs (goal: 38 of 40); "
        f"{document['others_slower']} other results called slower"
    )
    for line in document["results"]:
        print(
            f"  {line['op']:>12} {line['impl']:<8} {line['median_us']:9.1f} µs  from run to run "
            f"±{line['varies']:.2f} %  resolved: ±{line['resolved']:.2f} %  {line['verdicts']}"
        )


def compared(a: Record, b: Record, variation: Variation | None) -> Comparison:
    return compare(Side("before", [a]), Side("after", [b]), load=lambda machine: variation)


def pair_of(comparison: Comparison, op: str, impl: str):
    return next(p for p in comparison.pairs if (p.key.result.op, p.key.result.impl) == (op, impl))


def spread_of_results(records: list[Record], equal: list[Comparison]) -> list[dict]:
    """How much each result varied over all runs, and what a comparison of two runs resolved."""
    lines = []
    derived = [derive(record)["results"] for record in map(without_slowed, records)]
    for results in zip(*derived, strict=True):
        times = [result["derived"]["time"]["median_us"] for result in results]
        pairs = [pair_of(comparison, results[0]["op"], results[0]["impl"]) for comparison in equal]
        verdicts = [pair.verdict for pair in pairs]
        lines.append(
            {
                "op": results[0]["op"],
                "impl": results[0]["impl"],
                "median_us": statistics.median(times),
                "varies": 100 * statistics.stdev(times) / statistics.mean(times),
                "resolved": 100 * statistics.median(pair.half_width or math.inf for pair in pairs),
                "verdicts": {verdict: verdicts.count(verdict) for verdict in sorted(set(verdicts))},
            }
        )
    return lines


# Simulated records -------------------------------------------------------------------------------------


def simulate_all(comparisons: int) -> list[dict]:
    print(f"{comparisons} comparisons of equal code and as many with one of ten results slower by 3 %")
    lines = []
    for varies, known in ((0.0016, True), (0.005, True), (0.01, True), (0.0016, False), (0.005, False), (0.01, False)):
        line = simulate(comparisons, varies, known=known)
        lines.append(line)
        source = "measured in 10 runs" if known else "assumed 1 %"
        print(
            f"  times vary by {100 * varies:.2f} %, {source:<19}  equal code: `slower` in {line['slower']}, "
            f"`faster` in {line['faster']}; +3 %: found in {line['found']}, resolved ±{line['resolved']:.1f} %"
        )
    return lines


def simulate(comparisons: int, varies: float, *, known: bool) -> dict:
    """`varies`: the true standard deviation from run to run. `known`: it is estimated from ten runs, else assumed."""
    rng = random.Random(f"{varies} {known}")
    slower = faster = found = 0
    resolved = []
    for _ in range(comparisons):
        variation = simulated_variation(rng, varies) if known else None
        before, after = simulated_record(rng, varies), simulated_record(rng, varies)
        slowed = copy.deepcopy(after)
        slow_down(slowed, PLANTED)
        equal = compared(before, after, variation)
        slower += bool(equal.with_verdict("slower"))
        faster += bool(equal.with_verdict("faster"))
        resolved += [pair.half_width for pair in equal.pairs]
        found += compared(before, slowed, variation).pairs[0].verdict == "slower"
    return {
        "varies": varies,
        "known": known,
        "comparisons": comparisons,
        "slower": slower,
        "faster": faster,
        "found": found,
        "resolved": 100 * statistics.median(resolved),
    }


def simulate_reruns(comparisons: int) -> list[dict]:
    """Ten unresolved times measured again: of equal code, and with one slower by 1 %."""
    print(f"{comparisons} comparisons with ten unresolved times each, measured again in at most 32 pairs of processes")
    lines = []
    for varies, slowdown in ((0.0016, 1.0), (0.0016, 1.01), (0.005, 1.0), (0.005, 1.01), (0.01, 1.0), (0.01, 1.01)):
        rng = random.Random(f"{varies} {slowdown}")
        alarms, verdicts, blocks = 0, Counter(), []
        for _ in range(comparisons):
            comparison = simulated_rerun(rng, varies, slowdown)
            first, *others = comparison.pairs
            alarms += any(pair.verdict == "slower" for pair in others)
            verdicts[first.verdict] += 1
            blocks.append(first.blocks)
        line = {"varies": varies, "slowdown": slowdown, "verdicts": dict(verdicts), "alarms": alarms}
        lines.append({**line, "blocks": statistics.median(blocks)})
        counts = ", ".join(f"{verdict} {verdicts[verdict]}" for verdict in ("slower", "faster", "same", "not resolved"))
        print(
            f"  times vary by {100 * varies:.2f} %, one is {'equal' if slowdown == 1 else '1 % slower':<10}: {counts}, "
            f"after {statistics.median(blocks):.0f} pairs; an equal one called slower in {alarms}"
        )
    return lines


def simulated_rerun(rng: random.Random, varies: float, slowdown: float) -> Comparison:
    sides = [Side(name, [simulated_record(rng, 0.0)]) for name in ("before", "after")]
    codes = [Code(side.name, "python") for side in sides]

    def measure(of_ops: Sequence[Code], batch: Batch, folder: Path) -> Record:
        record = simulated_record(rng, varies)
        if of_ops[0] == codes[1]:
            slow_down(record, slowdown)
        return record

    versions = {"simulated": Versions(*codes)}
    unresolved = compare(*sides, load=lambda machine: None)
    return remeasure(
        unresolved,
        versions,
        Limits(32, math.inf),
        seed=rng.randrange(1 << 31),
        seconds=0.0,
        folder=Path(),
        say=lambda text: None,
        measure=measure,
    )


def slow_down(record: Record, factor: float) -> None:
    """The first result of a record takes this many times as long."""
    series = record["results"][0]["times"][0]
    series["samples_us"] = [factor * us for us in series["samples_us"]]


def simulated_variation(rng: random.Random, varies: float) -> Variation:
    """What `klab doctor --aa` would have found in ten runs."""
    times = [math.exp(rng.gauss(0, varies)) for _ in range(RUNS_OF_VARIATION)]
    case = {"case": {}, "timer": "events", "cache": "cold", "median_us": 127.0, "variation": statistics.stdev(times)}
    return {
        "machine": "simulated",
        "measured_at": "",
        "versions": {},
        "runs": RUNS_OF_VARIATION,
        "cases": [case],
    }


def simulated_record(rng: random.Random, varies: float) -> Record:
    """Ten results of 40 rounds; the rounds of a run scatter by 0.3 %."""
    case = {"dims": {"N": 1}, "dtype": "float32", "options": {}, "layout": "contiguous", "device": "cuda"}
    results = []
    for number in range(10):
        run = rng.gauss(0, varies)
        samples = [127.0 * math.exp(run + rng.gauss(0, 0.003)) for _ in range(40)]
        series = {"pass": "forward", "timer": "events", "cache": "cold", "status": "ok", "reason": None}
        results.append(
            {
                "op": "simulated",
                "impl": f"impl-{number}",
                "kind": "triton",
                "case": case,
                "check": {"status": "ok", "reason": None},
                "gradients": None,
                "times": [{**series, "samples_us": samples, "rounds": list(range(40))}],
                "cost": {},
                "memory": {},
                "built": None,
                "kernels": None,
                "inside": None,
                "traffic": None,
                "guards": [],
            }
        )
    environment = {"python": "", "packages": {}, "cpu": {"name": ""}, "gpus": []}
    machine = {"device": "cuda:0", "name": "simulated", "class": "simulated"}
    return {**empty_record(), "results": results, "machine": machine, "environment": environment, "complete": True}


if __name__ == "__main__":
    sys.exit(main())
