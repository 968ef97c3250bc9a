"""Kernels that nobody here wrote, checked as they are: Liger, attorch, flash-linear-attention, Unsloth, FlagGems and
Triton's tutorials.

    python benchmarks/outsiders.py OUT [--seeds 0,1,2,3,4] [--full] [--device cpu] [--files liger,tutorials] [--jobs 8]
    python benchmarks/outsiders.py --page OUT [--h200 OUT_H200] > table.md

The libraries are not part of this repository: each file under benchmarks/outsiders names the version and where to get
it. One `klab check` per kernel and seed; its record is kept in OUT and not made again. `--page` runs nothing:
it makes the tables of docs/results/outsiders.md from the records, those of an H200 from a second folder. The tests that
confirm the accusations are in benchmarks/outsiders/confirm.py; `--page` takes their lines from OUT/confirm.txt, and
those of accusations on the H200 alone from OUT_H200/confirm.txt.
"""

from __future__ import annotations

import argparse
import functools
import os
import re
import subprocess
import sys
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))

from kernellab.record.reading import load
from kernellab.record.verdict import derive

_FILES = ("liger", "attorch_ops", "linear_attention", "unsloth", "flaggems", "tutorials")
_LIBRARIES = dict(attorch_ops="attorch", linear_attention="flash-linear-attention")
_ACCUSATIONS = ("wrong", "error", "crashed", "timeout", "oom")
_WORDS = {"ok": "right", "imprecise": "imprecise", "unknown": "cannot tell", "skipped": "skipped"}
_MOST_REASONS = 3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--full", action="store_true", help="the whole battery, not --quick")
    parser.add_argument("--device", help="cpu, cuda or cuda:1")
    parser.add_argument("--seeds", default="0", help="by commas")
    parser.add_argument("--files", default=",".join(_FILES), help="only these, by commas; liger:rope is one kernel")
    parser.add_argument("--timeout", type=int, default=30, help="seconds per call; Triton's interpreter may take long")
    parser.add_argument("--jobs", type=int, default=1, help="checks at the same time")
    parser.add_argument("--page", action="store_true", help="the tables, from the records in OUT")
    parser.add_argument("--h200", type=Path, help="the records of an H200, for --page")
    args = parser.parse_args()
    if args.page:
        print(_page(args.out, args.h200))
        return
    args.out.mkdir(parents=True, exist_ok=True)
    check = functools.partial(_check, args.out, full=args.full, device=args.device, timeout_s=args.timeout)
    kernels = _kernels_of(args.files)
    with ThreadPoolExecutor(args.jobs) as pool:
        checks = [pool.submit(check, kernel, seed) for seed in args.seeds.split(",") for kernel in kernels]
        try:
            wait(checks)
        except KeyboardInterrupt:  # those that run are interrupted as well and end; no other begins
            pool.shutdown(cancel_futures=True)
            raise
    failed = [str(error) for error in (check.exception() for check in checks) if error]
    if failed:
        raise SystemExit("\n".join(failed))


def _kernels_of(files: str) -> list[str]:
    """Names such as liger:rope, of files and kernels separated by commas, in their order."""
    names = [":".join(kernel) for kernel in _declared_kernels()]
    return [name for chosen in files.split(",") for name in names if chosen in (name, name.partition(":")[0])]


def _check(out: Path, file: str, seed: str, *, full: bool, device: str | None, timeout_s: int) -> None:
    folder = out / f"{file.replace(':', '-')}-seed-{seed}-{'full' if full else 'quick'}"
    if folder.with_suffix(".txt").exists():  # written when the run has ended
        return
    module, _, op = file.partition(":")
    target = f"{ROOT / 'benchmarks' / 'outsiders' / module}.py{':' if op else ''}{op}"
    command = [sys.executable, "-m", "kernellab", "check", target, "--impl", "triton", "--out", str(folder)]
    command += ["--seed", seed, "--timeout", str(timeout_s), *([] if full else ["--quick"])]
    command += ["--device", device] if device else []
    before = [os.environ["PYTHONPATH"]] if "PYTHONPATH" in os.environ else []
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([*before, str(ROOT / "src")])}
    done = subprocess.run(command, env=env, stdout=subprocess.PIPE, text=True)
    if done.returncode not in (0, 1, 3):
        raise RuntimeError(f"klab check {target} ended with exit code {done.returncode}")
    folder.with_suffix(".txt").write_text(done.stdout)


# The page ----------------------------------------------------------------------------------------------

Battery = dict[str, Any]
Kernel = tuple[str, str]  # file and op


def _page(out: Path, h200: Path | None) -> str:
    here, there = _batteries(out), _batteries(h200) if h200 else {}
    kernels = _declared_kernels()
    lines = ["| library | kernel | without a GPU | trials | seeds | on an H200 | trials | seeds |", "|" + "---|" * 8]
    for kernel in kernels:
        summaries = (*_summary(here.get(kernel, [])), *_summary(there.get(kernel, [])))
        lines.append("| " + " | ".join([_LIBRARIES.get(kernel[0], kernel[0]), kernel[1], *summaries]) + " |")
    verdicts = Counter(_summary(here.get(kernel, []))[0] for kernel in kernels)
    lines += ["", "; ".join(f"{word}: {count}" for word, count in verdicts.most_common()), "", "## Accusations", ""]
    confirmations = {**(_confirmations(h200 / "confirm.txt") if h200 else {}), **_confirmations(out / "confirm.txt")}
    for kernel in kernels:
        runs = [*here.get(kernel, []), *there.get(kernel, [])]
        reasons = _reasons(runs)
        if reasons:
            lines += [f"**{_LIBRARIES.get(kernel[0], kernel[0])} {kernel[1]}**", ""]
            lines += [f"- {reason}" for reason in reasons]
            if "**not right**" in map(_verdict, runs):
                lines += [f"- {line}" for line in confirmations.get(kernel, ["no test yet"])]
            lines.append("")
    return "\n".join(lines)


def _declared_kernels() -> list[Kernel]:
    """All, in the order of the files: those without a record are shown too."""
    folder = ROOT / "benchmarks" / "outsiders"
    pattern = re.compile(r'^@(\w+)\.impl\(\s*"triton"', re.MULTILINE)
    return [(file, op) for file in _FILES for op in pattern.findall((folder / f"{file}.py").read_text())]


def _batteries(out: Path) -> dict[Kernel, list[Battery]]:
    """By kernel, one for each seed."""
    batteries: dict[Kernel, list[Battery]] = defaultdict(list)
    for file in _FILES:
        for folder in sorted(out.glob(f"{file}-*seed-*")):
            if folder.is_dir() and folder.with_suffix(".txt").exists():
                for battery in derive(load(folder))["batteries"]:
                    batteries[file, battery["op"]].append(battery)
    return batteries


def _summary(runs: list[Battery]) -> tuple[str, str, str]:
    """The verdicts of all seeds, the range of their trials, and the number of seeds."""
    if not runs:
        return "not run yet", "", ""
    words = Counter(map(_verdict, runs))
    verdict = ", ".join(word if len(words) == 1 else f"{word} {count}×" for word, count in words.most_common())
    trials = sorted({run["tried"] for run in runs})
    return verdict, f"{trials[0]}–{trials[-1]}" if len(trials) > 1 else str(trials[0]), str(len(runs))


def _verdict(run: Battery) -> str:
    """A kernel whose compiler needs minutes for a very wide row has not been found wrong."""
    if run["failures"] and all(failure["status"] == "timeout" for failure in run["failures"]):
        return "did not finish"
    return _WORDS.get(run["status"], "**not right**")


def _reasons(runs: list[Battery]) -> list[str]:
    """The kinds of failures over all seeds, each with the number of trials and its first example."""
    examples: dict[str, str] = {}
    counts: Counter[str] = Counter()
    for run in runs:
        if run["status"] not in _ACCUSATIONS:
            continue
        for failure in run["failures"]:
            kind = f"{failure['kind']}: {_kind(failure['reason'])}"
            counts[kind] += 1
            examples.setdefault(kind, f"{failure['label']}: {failure['reason']}")
    shown = counts.most_common(_MOST_REASONS)
    lines = [f"{kind.partition(':')[0]}, {_trials(count)}: {_shorten(examples[kind])}" for kind, count in shown]
    rest = len(counts) - len(shown)
    return [*lines, *([f"{rest} other kinds of failures"] if rest else [])]


def _trials(count: int) -> str:
    return "1 trial" if count == 1 else f"{count} trials"


def _kind(reason: str) -> str:
    """What failed, without numbers."""
    return "".join(c for c in reason.partition(": at ")[0].partition("; at ")[0] if not c.isdigit() and c not in "+-.")[
        :60
    ]


def _shorten(text: str) -> str:
    return text if len(text) <= 220 else f"{text[:217]}…"


def _confirmations(path: Path) -> dict[Kernel, list[str]]:
    """The lines of benchmarks/outsiders/confirm.py: `file kernel: text`."""
    lines: dict[Kernel, list[str]] = defaultdict(list)
    for line in path.read_text().splitlines() if path.exists() else []:
        name, _, text = line.partition(": ")
        file, _, op = name.partition(" ")
        lines[file, op].append(text)
    return lines


if __name__ == "__main__":
    main()
