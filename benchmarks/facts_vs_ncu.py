"""Do our facts about kernels equal Nsight Compute's? Every shipped Triton and CUDA kernel, ours against ncu's.

    python benchmarks/facts_vs_ncu.py OUT

Ours come from the launches captured on meta tensors and their binaries, for the GPU present; ncu's from running the
same way once. Compared are registers, static and dynamic shared memory, grid, block, theoretical occupancy (exactly)
and waves per SM (to a hundredth). One ncu process per way and case. Writes facts_vs_ncu.csv and .md to OUT; exit code
0 when everything agrees.
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

from kernellab.machine.tools import of_the_toolkit
from kernellab.traces.ncu import launches

# Three widths of softmax, as they take different kernels; a square whose rows no wide access divides.
WORK = [
    ("gelu", "8192x8192", "float32"),
    ("gelu", "8192x8192", "bfloat16"),
    ("softmax", "4096x1024", "float32"),
    ("softmax", "4096x16384", "bfloat16"),
    ("softmax", "1024x131072", "bfloat16"),
    ("square", "4096x4097", "float32"),
]
WAYS = ("triton", "cuda")
METRICS = {
    "launch__registers_per_thread": "registers",
    "launch__shared_mem_per_block_static": "static_shared_bytes",
    "launch__shared_mem_per_block_dynamic": "dynamic_shared_bytes",
    "launch__grid_size": "blocks",
    "launch__block_size": "threads",
    "launch__waves_per_multiprocessor": "waves",
    "sm__maximum_warps_per_active_cycle_pct": "occupancy_percent",
}

# Runs one way once, between cudaProfilerStart and cudaProfilerStop; everything is compiled before.
DRIVER = """
import sys, torch, kernellab as kl
op, way, shape, dtype = sys.argv[1:]
x = torch.randn(*map(int, shape.split("x")), device="cuda").to(getattr(torch, dtype))
fn = getattr(kl.ops, op)[way]
for _ in range(2):
    fn(x)
torch.cuda.synchronize()
torch.cuda.cudart().cudaProfilerStart()
fn(x)
torch.cuda.synchronize()
torch.cuda.cudart().cudaProfilerStop()
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path, metavar="OUT")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    ncu = of_the_toolkit("ncu")
    if ncu is None:
        sys.exit("ncu was not found on the PATH, in $CUDA_HOME/bin or in /usr/local/cuda/bin")
    began, rows = time.monotonic(), []
    for op, shape, dtype in WORK:
        ours = inspected(op, shape, dtype, args.out)
        for way in WAYS:
            theirs = profiled(ncu, op, way, shape, dtype, args.out)
            rows += compared(f"{op} {way} {shape} {dtype}", [k for k in ours if k["impl"] == way], theirs)
    return write(args.out, rows, time.monotonic() - began)


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT / "src")}


def inspected(op: str, shape: str, dtype: str, out: Path) -> list[dict]:
    command = [sys.executable, "-m", "kernellab", "inspect", op, "--impl", ",".join(WAYS), "--json"]
    command += ["--shape", shape, "--dtype", dtype, "--out", str(out / f"{op}-{shape}-{dtype}")]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(), timeout=120)
    if not done.stdout.startswith("{"):
        sys.exit(f"inspecting {op}: {done.stderr}")
    return json.loads(done.stdout)["kernels"]


def profiled(ncu: str, op: str, way: str, shape: str, dtype: str, out: Path) -> list[dict]:
    """The kernels of one call, as ncu's raw page tells them."""
    script = out / "driver.py"
    script.write_text(DRIVER)
    command = [ncu, "--csv", "--page", "raw", "--print-units", "base", "--profile-from-start", "off"]
    command += ["--metrics", ",".join(METRICS), sys.executable, str(script), op, way, shape, dtype]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(), timeout=120)
    (out / f"ncu-{op}-{way}-{shape}-{dtype}.csv").write_text(done.stdout)
    found = raw_page(done.stdout)
    if not found:
        sys.exit(f"ncu saw no kernel of {op} {way}: {(done.stdout + done.stderr)[-800:]}")
    return found


def raw_page(text: str) -> list[dict]:
    found = []
    for launch in launches(text):
        known = {ours: launch.numbers[theirs] for theirs, ours in METRICS.items() if theirs in launch.numbers}
        found.append({"name": launch.name, **known})
    return found


def compared(where: str, ours: list[dict], theirs: list[dict]) -> list[dict]:
    if len(ours) != len(theirs):
        return [{"kernel": where, "fact": "kernels", "ours": len(ours), "ncu": len(theirs), "equal": False}]
    return [row for mine, yours in zip(ours, theirs, strict=True) for row in facts(where, mine, yours)]


def facts(where: str, mine: dict, yours: dict) -> list[dict]:
    fits = mine["occupancy"]
    blocks, threads = product(mine["grid"]), product(mine["block"])
    known = {
        "registers": mine["registers"],
        "static_shared_bytes": mine["static_shared_bytes"],
        "dynamic_shared_bytes": mine["dynamic_shared_bytes"],
        "blocks": blocks,
        "threads": threads,
        "occupancy_percent": 100 * fits["fraction"],
        "waves": blocks / (fits["blocks_per_sm"] * sms()),
    }
    rows = []
    for fact, value in known.items():
        if fact in yours:
            near = {"waves": 0.01, "occupancy_percent": 0.01}.get(fact, 0.0)
            same = abs(value - yours[fact]) <= max(near, near * abs(value))
            name = f"{where} {mine['name']}"
            rows.append({"kernel": name, "fact": fact, "ours": value, "ncu": yours[fact], "equal": same})
    return rows


def product(dims: list[int]) -> int:
    x, y, z = dims
    return x * y * z


def sms() -> int:
    import torch

    return int(torch.cuda.get_device_properties(0).multi_processor_count)


def differing(rows: list[dict]) -> str:
    return "; ".join(f"{r['fact']} {r['ours']:g}, {r['ncu']:g}" for r in rows if not r["equal"])


def write(out: Path, rows: list[dict], took_s: float) -> int:
    import torch

    with (out / "facts_vs_ncu.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    by_kernel: dict[str, list[dict]] = {}
    for row in rows:
        by_kernel.setdefault(row["kernel"], []).append(row)
    good = sum(r["equal"] for r in rows)
    lines = [
        "# Facts about kernels, ours against Nsight Compute's",
        "",
        f"machine: {torch.cuda.get_device_name()}  ",
        f"date: {time.strftime('%Y-%m-%d')}  ",
        f"versions: torch {torch.__version__}  ",
        "script: benchmarks/facts_vs_ncu.py",
        "",
        "| kernel | equal | where not: ours, ncu's |",
        "|---|---|---|",
        *(
            f"| {name} | {sum(r['equal'] for r in of)} of {len(of)} | {differing(of)} |"
            for name, of in by_kernel.items()
        ),
        "",
        f"{good} of {len(rows)} facts equal; took {took_s:.0f} s.",
    ]
    (out / "facts_vs_ncu.md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))
    return 0 if good == len(rows) else 1


if __name__ == "__main__":
    sys.exit(main())
