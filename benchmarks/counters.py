"""What Nsight Compute counts of square by four grids and of every shipped op, and counted bytes against declared ones.

    python benchmarks/counters.py OUT

Runs `klab profile --with ncu` for each. Writes grids.csv, counters.csv and counters.md to OUT, and each run's folder
with its reports and pages. Exit code 0 when memory throughput rises with the grid, every op was counted, and the fused
ways move within 10 % of what is declared. Ends within four minutes: what is left then is named, and counts as missing.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))

from kernellab.counters.tables import COLUMNS, csv_rows

LIMIT_S = 230.0
GRIDS, BLOCKS = (1, 8, 64, 512), (128, 256)
NEAR = 0.10
# Sizes of 1 GiB and more: what stays in the L2 cache of what is written is small beside them. A row of softmax fits a
# block there, so that a fused way reads it once. A matmul reads tiles again: no bytes are expected of it.
WORK = [
    ("square", "16384x16384", "float32", True),
    ("gelu", "16384x16384", "float32", True),
    ("softmax", "65536x4096", "float32", True),
    ("add", "16384x16384", "float32", True),
    ("matmul", "8192", "bfloat16", False),
]
FUSED = ("torch", "triton", "cuda")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path, metavar="OUT")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    began, problems = time.monotonic(), []
    sizes = ["--grids", ",".join(map(str, GRIDS)), "--blocks", ",".join(map(str, BLOCKS))]
    swept = counted("square", sizes, args.out / "grids", began)
    grids = swept.get("sweep", [])
    problems += [swept["error"]] if "error" in swept else rising(grids)
    ways = []
    for op, shape, dtype, _ in WORK:
        options = ["--impl", ",".join(known(op)), "--shape", shape, "--dtype", dtype]
        found = counted(op, options, args.out / op, began)
        problems += [found["error"]] if "error" in found else []
        problems += [f"{op} {one['impl']}: {one['reason']}" for one in found.get("skipped", [])]
        ways += [{**way, "op": op, "size": f"{shape} {dtype}"} for way in found.get("ways", [])]
    problems += far(ways)
    write(args.out, grids, ways, problems, time.monotonic() - began)
    return 1 if problems else 0


def known(op: str) -> list[str]:
    """Of the fused ways, those the op has."""
    from kernellab.declaration.catalogue import catalogue

    entry = next(entry for entry in catalogue() if entry.name == op)
    return [way for way in FUSED if way in entry.impls]


def counted(op: str, options: list[str], out: Path, began: float) -> dict:
    left = LIMIT_S - (time.monotonic() - began)
    if left < 5:
        return {"error": f"{op}: no time was left"}
    command = [sys.executable, "-m", "kernellab", "profile", "--with", "ncu", op, *options, "--out", str(out), "--json"]
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    try:
        done = subprocess.run(command, capture_output=True, text=True, env=env, timeout=left)
    except subprocess.TimeoutExpired:
        return {"error": f"{op}: it did not end in the {left:.0f} s that were left"}
    if done.returncode:
        return {"error": f"{op}: {done.stderr.strip()[-1500:]}"}
    return json.loads(done.stdout)


def rising(rows: list[dict]) -> list[str]:
    problems = []
    for threads in BLOCKS:
        memory = [row["memory_percent"] for row in rows if row["threads"] == threads]
        if len(memory) != len(GRIDS) or None in memory or memory != sorted(set(memory)):
            problems.append(f"blocks of {threads}: memory throughput does not rise with the grid: {memory}")
    return problems


def far(ways: list[dict]) -> list[str]:
    """Ways that move more or less than they declare."""
    expected = {op for op, _, _, bytes_too in WORK if bytes_too}
    problems = []
    for way in ways:
        share = way["counted_to_fewest"]
        if way["op"] in expected and (share is None or abs(share - 1) > NEAR):
            problems.append(f"{way['op']} {way['way']}: {share} times the declared bytes")
    return problems


def write(out: Path, grids: list[dict], ways: list[dict], problems: list[str], took_s: float) -> None:
    import torch
    import triton

    launches = [
        {"op": way["op"], "size": way["size"], **row}
        for way in ways
        for row in csv_rows(way["kernels"])
    ]  # fmt: skip
    for name, columns, rows in (
        ("grids", COLUMNS, csv_rows(grids)),
        ("counters", ("op", "size", *COLUMNS), launches),
    ):
        with (out / f"{name}.csv").open("w", newline="") as file:
            writer = csv.DictWriter(file, columns, lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
    lines = [
        "# What Nsight Compute counts",
        "",
        f"machine: {torch.cuda.get_device_name()}  ",
        f"date: {time.strftime('%Y-%m-%d')}  ",
        f"versions: torch {torch.__version__}, triton {triton.__version__}  ",
        "script: benchmarks/counters.py",
        "",
        "## Square by grids",
        "",
        "| block | grid | time, µs | memory, % | compute, % | held by |",
        "|---|---|---|---|---|---|",
        *(
            f"| {row['threads']} | {row['blocks']} | {shown(row['duration_us'])} | {shown(row['memory_percent'])} "
            f"| {shown(row['compute_percent'])} | {row['limit']} |"
            for row in grids
        ),
        "",
        "## Bytes, counted and declared",
        "",
        "| op | way | kernels | time, µs | DRAM, MB | declared, MB | counted to declared |",
        "|---|---|---|---|---|---|---|",
        *(
            f"| {way['op']} {way['size']} | {way['way']} | {len(way['kernels'])} | {shown(way['time_us'])} "
            f"| {mega(way['counted_bytes'])} | {mega(way['fewest_bytes'])} | {shown(way['counted_to_fewest'], 3)} |"
            for way in ways
        ),
        "",
        *(f"- {problem}" for problem in problems),
        f"{len(problems) or 'Nothing'} amiss; took {took_s:.0f} s.",
    ]
    (out / "counters.md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


def shown(value: float | None, places: int = 1) -> str:
    return "–" if value is None else f"{value:.{places}f}"


def mega(count: int | None) -> str:
    return "–" if count is None else f"{count / 1e6:.1f}"


if __name__ == "__main__":
    sys.exit(main())
