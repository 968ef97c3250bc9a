"""Kernels that nobody here wrote, checked as they are: Liger, attorch, flash-linear-attention, Unsloth, FlagGems and
Triton's tutorials, as a Markdown table.

    python benchmarks/outsiders.py OUT_DIR [--full] [--device cpu] [--seed 0] [--files liger,tutorials] > table.md

The libraries are not part of this repository: each file under benchmarks/outsiders names the version and where to get
it. One `klab check` per file; its record is kept in OUT_DIR and read instead of run again. A table row per kernel says
the verdict, the trials, and the first failures or the reason why nothing can be told.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))

from kernellab.record.reading import load
from kernellab.record.verdict import derive

_FILES = ("liger", "attorch_ops", "linear_attention", "unsloth", "flaggems", "tutorials")
_MOST_FAILURES = 2


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--full", action="store_true", help="the whole battery, not --quick")
    parser.add_argument("--device", help="cpu, cuda or cuda:1")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--files", default=",".join(_FILES), help="only these, by commas")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    options = ["--seed", str(args.seed), *([] if args.full else ["--quick"])]
    options += ["--device", args.device] if args.device else []
    print("| file | kernel | verdict | trials | passed | outside | cannot tell | why |")
    print("|---|---|---|---|---|---|---|---|")
    for file in args.files.split(","):
        for row in _rows(derive(_record(args.out, file, options))):
            print(f"| {file} | " + " | ".join(str(cell).replace("|", "\\|") for cell in row) + " |", flush=True)


def _record(out: Path, file: str, options: list[str]) -> dict[str, Any]:
    folder = out / f"{file}-{'-'.join(options).replace('--', '')}"
    if not (folder / "run.json").exists():
        path = ROOT / "benchmarks" / "outsiders" / f"{file}.py"
        command = [sys.executable, "-m", "kernellab", "check", str(path), "--impl", "triton", "--out", str(folder)]
        before = [os.environ["PYTHONPATH"]] if "PYTHONPATH" in os.environ else []
        env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), *before])}
        done = subprocess.run([*command, *options], env=env, stdout=subprocess.PIPE, text=True)
        (out / f"{folder.name}.txt").write_text(done.stdout)
        if done.returncode not in (0, 1, 3):
            raise SystemExit(f"klab check {path} ended with exit code {done.returncode}")
    return load(folder)


def _rows(record: dict[str, Any]) -> list[tuple[object, ...]]:
    rows = []
    for battery in record["batteries"]:
        failures = [f"{f['label']}: {f['reason']}" for f in battery["failures"][:_MOST_FAILURES]]
        unknown = list(battery["unknown"])[:_MOST_FAILURES] if not battery["tried"] else []
        counts = (battery["tried"], battery["passed"], *(sum(battery[k].values()) for k in ("outside", "unknown")))
        rows.append((battery["op"], battery["status"], *counts, "; ".join(failures or unknown)[:400]))
    return rows


if __name__ == "__main__":
    main()
