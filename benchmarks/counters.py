"""What Nsight Compute counts for square on four grids and for every shipped op; counted bytes against declared ones.

    python benchmarks/counters.py OUT

Runs `klab profile --with ncu` for each. Writes grids.csv, counters.csv and counters.md to OUT, and each run's folder
with its reports and pages. The exit code is 0 if memory throughput rises with the grid, every op was counted, and the
fused implementations move the declared bytes within 10 %. Ends within four minutes: what was not counted by then is
listed as a problem.
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
# Op, shape, dtype, and whether its bytes are compared. Sizes are 1 GiB or more: the written bytes that stay in the L2
# cache are few beside them. A row of softmax fits a block there, so a fused implementation reads it once. A matmul
# reads tiles several times: its bytes are not compared.
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
    began = time.monotonic()
    problems: list[str] = []
    sizes = ["--grids", ",".join(map(str, GRIDS)), "--blocks", ",".join(map(str, BLOCKS))]
    sweep = count_launches("square", sizes, args.out / "grids", began)
    grids = sweep.get("sweep", [])
    problems += [sweep["error"]] if "error" in sweep else check_rising(grids)
    impl_rows = []
    for op, shape, dtype, _ in WORK:
        options = ["--impl", ",".join(fused_impls(op)), "--shape", shape, "--dtype", dtype]
        document = count_launches(op, options, args.out / op, began)
        problems += [document["error"]] if "error" in document else []
        problems += [f"{op} {skipped['impl']}: {skipped['reason']}" for skipped in document.get("skipped", [])]
        impl_rows += [{**row, "op": op, "size": f"{shape} {dtype}"} for row in document.get("impls", [])]
    problems += check_bytes(impl_rows)
    write(args.out, grids, impl_rows, problems, time.monotonic() - began)
    return 1 if problems else 0


def fused_impls(op: str) -> list[str]:
    """The fused implementations that the op has."""
    from kernellab.declaration.catalogue import catalogue

    entry = next(entry for entry in catalogue() if entry.name == op)
    return [impl for impl in FUSED if impl in entry.impls]


def count_launches(op: str, options: list[str], out: Path, began: float) -> dict:
    left_s = LIMIT_S - (time.monotonic() - began)
    if left_s < 5:
        return {"error": f"{op}: no time was left"}
    command = [sys.executable, "-m", "kernellab", "profile", "--with", "ncu", op, *options, "--out", str(out), "--json"]
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    try:
        done = subprocess.run(command, capture_output=True, text=True, env=env, timeout=left_s)
    except subprocess.TimeoutExpired:
        return {"error": f"{op}: did not end within the {left_s:.0f} s that were left"}
    if done.returncode:
        return {"error": f"{op}: {done.stderr.strip()[-1500:]}"}
    return json.loads(done.stdout)


def check_rising(rows: list[dict]) -> list[str]:
    """Block sizes for which memory throughput does not rise with the grid."""
    problems = []
    for threads in BLOCKS:
        memory = [row["memory_percent"] for row in rows if row["threads"] == threads]
        if len(memory) != len(GRIDS) or None in memory or memory != sorted(set(memory)):
            problems.append(f"blocks of {threads}: memory throughput does not rise with the grid: {memory}")
    return problems


def check_bytes(impl_rows: list[dict]) -> list[str]:
    """Implementations that move more or fewer bytes than declared."""
    compared = {op for op, _, _, compare_bytes in WORK if compare_bytes}
    problems = []
    for row in impl_rows:
        share = row["counted_to_fewest"]
        if row["op"] in compared and (share is None or abs(share - 1) > NEAR):
            problems.append(f"{row['op']} {row['impl']}: {share} times the declared bytes")
    return problems


def write(out: Path, grids: list[dict], impl_rows: list[dict], problems: list[str], took_s: float) -> None:
    import torch
    import triton

    launches = [
        {"op": row["op"], "size": row["size"], **launch}
        for row in impl_rows
        for launch in csv_rows(row["kernels"])
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
        "| block | grid | time, µs | memory, % | compute, % | limited by |",
        "|---|---|---|---|---|---|",
        *(
            f"| {row['threads']} | {row['blocks']} | {number(row['duration_us'])} | {number(row['memory_percent'])} "
            f"| {number(row['compute_percent'])} | {row['limit']} |"
            for row in grids
        ),
        "",
        "## Bytes, counted and declared",
        "",
        "| op | impl | kernels | time, µs | DRAM, MB | declared, MB | counted to declared |",
        "|---|---|---|---|---|---|---|",
        *(
            f"| {row['op']} {row['size']} | {row['impl']} | {len(row['kernels'])} | {number(row['time_us'])} "
            f"| {megabytes(row['counted_bytes'])} | {megabytes(row['fewest_bytes'])} "
            f"| {number(row['counted_to_fewest'], 3)} |"
            for row in impl_rows
        ),
        "",
        *(f"- {problem}" for problem in problems),
        f"{len(problems) or 'No'} problem{'' if len(problems) == 1 else 's'}; took {took_s:.0f} s.",
    ]
    (out / "counters.md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


def number(value: float | None, places: int = 1) -> str:
    return "–" if value is None else f"{value:.{places}f}"


def megabytes(count: int | None) -> str:
    return "–" if count is None else f"{count / 1e6:.1f}"


if __name__ == "__main__":
    sys.exit(main())
