"""Does kernellab find known differences, and no others? Equal implementations and 1, 2 and 5 % more work, repeated.

    python benchmarks/aa.py [--runs 40] [--out DIR] [--device cpu] [--seconds 0.3]

Each run is a process of its own. In the same process triton.testing.do_bench (on the CPU torch.utils.benchmark)
times the same kernel twice. Writes aa.json and the runs' records to DIR; prints a table, and which goals are met.
If DIR already holds runs, new ones are added, and the summary covers all of them; `--runs 0` adds none.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT / "src"), os.environ.get("PYTHONPATH")]))

from kernellab.base.errors import UserError
from kernellab.doctor.aa_runs import repeat
from kernellab.doctor.aa_summary import Summary, summarise
from kernellab.machine.environment import gpus
from kernellab.record.reading import load
from kernellab.reporting.terminal import aa as report
from kernellab.reporting.text.console import console


def main() -> int:
    try:
        return _main()
    except UserError as error:
        sys.exit(error.message)


def _main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=40)
    parser.add_argument("--out", type=Path, default=None)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cuda" if gpus() else "cpu")
    parser.add_argument("--seconds", type=float, default=0.3, help="per implementation and case")
    args = parser.parse_args()
    out = args.out or Path(f"aa-{time.strftime('%Y%m%d-%H%M%S')}")
    out.mkdir(parents=True, exist_ok=True)
    others_file = (out / "others.jsonl").resolve()
    began = time.monotonic()
    repeat(
        args.runs,
        out / f"runs-{1 + len(list(out.glob('runs-*')))}",
        device=args.device,
        seconds=args.seconds,
        target=f"{ROOT / 'benchmarks' / 'aa_op.py'}:aa",
        env={"AA_OTHERS": str(others_file), "AA_DEVICE": args.device},
        say=lambda text: print(text, file=sys.stderr, flush=True),
    )
    records = [record for folder in sorted(out.glob("runs-*/run-*")) if (record := load(folder))["complete"]]
    if not records:
        return 3
    summary = summarise(records)
    others = summarise_others([json.loads(line) for line in others_file.read_text().splitlines()])
    goals = check_goals(summary, args.device)
    took = time.monotonic() - began
    document = {"summary": summary, "others": others, "promises": goals, "took_s": took, "device": args.device}
    (out / "aa.json").write_text(json.dumps(document, indent=1))
    report.show(summary, console())
    name = "triton.testing.do_bench" if args.device == "cuda" else "torch.utils.benchmark"
    print(f"\n{name}, called twice for one kernel in the same processes: second time over first")
    for case in others:
        for statistic in ("mean", "median"):
            times = case[statistic]
            print(
                f"  {case['size']:>12}  {statistic:6} {times['us']:9.2f} µs  ratio's standard deviation "
                f"{100 * times['deviation']:5.2f} %  off by more than 1 %: {times['off']} of {case['of']}"
            )
    print(f"\ngoals; {args.runs} runs took {took:.0f} s")
    for goal in goals:
        print(f"  {'met   ' if goal['kept'] else 'MISSED'} {goal['what']}: {goal['found']}")
    return 0 if all(goal["kept"] for goal in goals) else 1


def summarise_others(lines: list[list[dict]]) -> list[dict]:
    """Per case: how far the second of two measurements of one kernel is from the first."""
    cases = []
    for runs in zip(*lines, strict=True):
        dims = runs[0]["case"]["dims"]
        case: dict = {"size": "×".join(map(str, dims.values())), "case": runs[0]["case"], "of": len(runs)}
        for statistic in ("mean", "median"):
            ratios = [run["second"][statistic] / run["first"][statistic] for run in runs]
            case[statistic] = {
                "us": statistics.median(run["first"][statistic] for run in runs),
                "deviation": statistics.stdev(ratios) if len(ratios) > 1 else 0.0,
                "off": sum(abs(ratio - 1) > 0.01 for ratio in ratios),
                "ratios": ratios,
            }
        cases.append(case)
    return cases


def check_goals(summary: Summary, device: str) -> list[dict]:
    """The goals for 40 runs; for fewer runs, the same shares. Only a GPU has goals for small differences."""
    large, small = summary["cases"]
    goals = []

    def add(goal: str, value: float, met: bool, text: str) -> None:
        goals.append({"what": goal, "value": value, "kept": met, "found": text})

    for name, case, widest in (("large", large, 0.0025), ("small", small, 0.01)):
        equal = case["equal"]
        share = equal["covers"] / max(1, equal["of"])
        add(f"{name}: A/A covers 1, 38 of 40", share, share >= 38 / 40, f"{equal['covers']} of {equal['of']}")
        half = equal["half_width"]
        if device == "cuda":
            add(f"{name}: half-width ≤ {100 * widest:g} %", half, half <= widest, f"{100 * half:.3f} %")
    for percent, least in ((1, 35), (2, 39)) if device == "cuda" else ():
        more = next(m for m in large["more_work"] if m["percent"] == percent)
        share = more["found"] / max(1, more["of"])
        add(f"large: +{percent} % found, {least} of 40", share, share >= least / 40, f"{more['found']} of {more['of']}")
    wrong = sum(m["wrong_way"] for case in (large, small) for m in case["more_work"])
    add("more work is never called faster", wrong, wrong == 0, f"{wrong} times")
    return goals


if __name__ == "__main__":
    sys.exit(main())
