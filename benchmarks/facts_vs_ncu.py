"""Do kernellab's facts about kernels equal Nsight Compute's? Every shipped Triton and CUDA kernel is compared.

    python benchmarks/facts_vs_ncu.py OUT

kernellab's facts come from launches captured on meta tensors and their binaries, for the GPU present; ncu's from one
call of the same implementation. Registers, static and dynamic shared memory, grid, block and theoretical occupancy must
be equal, waves per SM within a hundredth. Every kernel in the sources is launched, in every width of access it has;
with other template arguments it is the same code. Square's `cuda-inline` is not compared: its host code launches the
kernel itself, so the launch cannot be captured. Writes facts_vs_ncu.csv and .md to OUT. The exit code is 0 if
everything agrees.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))

from kernellab.counters.ncu_pages import launches
from kernellab.machine.tools import toolkit_program

STRIDED = str(Path(__file__).with_name("strided_ops.py"))
BOTH = ("triton", "cuda")
STUDIES = ("triton-pow2", "triton-w4", "triton-w8", "triton-w16", "triton-1024", "triton-1024-once")
PROCESSES = 8  # at the same time: nothing is timed


@dataclass(frozen=True)
class Work:
    """Cases of an op, all run in one process per implementation."""

    op: str
    shapes: str
    dtypes: str = "float32,bfloat16"
    impls: tuple[str, ...] = BOTH
    options: str = ""

    def words(self, impl: str) -> list[str]:
        words = [self.op, "--impl", impl, "--shape", self.shapes, "--dtype", self.dtypes]
        return [*words, "--opt", self.options] if self.options else words

    @property
    def name(self) -> str:
        return self.op.rpartition(":")[2]


# Widths of softmax on both sides of every choice that its implementations make; 4097 columns, which no wide access
# divides; rows that are parts of longer ones, and rows that are columns in memory.
WORK = [
    Work("gelu", "8192x8192", "float32,bfloat16,float16", options="approximate=tanh,none"),
    Work("square", "4096x4097", "float32,bfloat16,float16"),
    Work("square", "4096x4097", impls=STUDIES),
    Work("softmax", "4096x64,4096x1000,4096x1024,4096x2048,4096x4096,4096x4097,4096x8192"),
    Work("softmax", "1024x16384,1024x32768,1024x65536,512x131072,64x300000,64x300001"),
    *(
        Work(f"{STRIDED}:{op}_part", "1024x4160", options="cut=wide,narrow,turned")
        for op in ("gelu", "softmax", "square")
    ),
]
METRICS = {
    "launch__registers_per_thread": "registers",
    "launch__shared_mem_per_block_static": "static_shared_bytes",
    "launch__shared_mem_per_block_dynamic": "dynamic_shared_bytes",
    "launch__grid_size": "blocks",
    "launch__block_size": "threads",
    "launch__waves_per_multiprocessor": "waves",
    "sm__maximum_warps_per_active_cycle_pct": "occupancy_percent",
}

# Runs an implementation once for every case, between cudaProfilerStart and cudaProfilerStop; it is compiled before.
DRIVER = """
import json, sys, torch
from kernellab.declaration.case_request import CaseRequest
from kernellab.declaration.passes import pass_of
from kernellab.declaration.targets import load, resolve
target, impl, shapes, dtypes, options = json.loads(sys.argv[1])
(op,) = load(resolve(target)).values()
forward, device = pass_of("forward"), torch.device("cuda")
for case in op.expand(CaseRequest(shapes=shapes, dtypes=dtypes, options=options), "cuda"):
    run = forward.prepare(op, op.impls[impl].fn, forward.inputs(op, case, 0, device), case)
    for _ in range(2):
        run()
    torch.cuda.synchronize()
    torch.cuda.cudart().cudaProfilerStart()
    run()
    torch.cuda.synchronize()
    torch.cuda.cudart().cudaProfilerStop()
    del run
    torch.cuda.empty_cache()
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path, metavar="OUT")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    ncu = toolkit_program("ncu")
    if ncu is None:
        sys.exit("ncu was not found on the PATH, in $CUDA_HOME/bin or in /usr/local/cuda/bin")
    began = time.monotonic()
    jobs = [(number, work, impl) for number, work in enumerate(WORK) for impl in work.impls]
    with ThreadPoolExecutor(PROCESSES) as pool:
        ours = [pool.submit(inspect, work, impl, args.out / f"{number}-{impl}") for number, work, impl in jobs]
        theirs = [
            pool.submit(profile, ncu, work, impl, args.out / f"{number}-{impl}.csv") for number, work, impl in jobs
        ]
    rows = []
    for (_, work, impl), our_job, ncu_job in zip(jobs, ours, theirs, strict=True):
        rows += compare(f"{work.name} {impl}", our_job.result(), ncu_job.result())
    return write(args.out, rows, time.monotonic() - began)


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT / "src")}


def inspect(work: Work, impl: str, out: Path) -> list[dict]:
    command = [sys.executable, "-m", "kernellab", "inspect", *work.words(impl), "--json", "--out", str(out)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(), timeout=200)
    if not done.stdout.startswith("{"):
        raise SystemExit(f"inspecting {work.name} {impl}: {done.stderr}")
    return json.loads(done.stdout)["kernels"]


def profile(ncu: str, work: Work, impl: str, out: Path) -> list[dict]:
    """The kernels of one call at each case, from ncu's raw page."""
    script = out.with_suffix(".py")
    script.write_text(DRIVER)
    shapes = [[int(size) for size in shape.split("x")] for shape in work.shapes.split(",")]
    name, _, values = work.options.partition("=")
    options = {name: values.split(",")} if name else {}
    case = json.dumps([work.op, impl, shapes, work.dtypes.split(","), options])
    command = [ncu, "--csv", "--page", "raw", "--print-units", "base", "--profile-from-start", "off"]
    command += ["--clock-control", "none", "--metrics", ",".join(METRICS), sys.executable, str(script), case]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(), timeout=200)
    out.write_text(done.stdout)
    kernels = parse_raw_page(done.stdout)
    if not kernels:
        raise SystemExit(f"ncu saw no kernel of {work.name} {impl}: {(done.stdout + done.stderr)[-1500:]}")
    return kernels


def parse_raw_page(text: str) -> list[dict]:
    kernels = []
    for launch in launches(text):
        facts = {fact: launch.numbers[metric] for metric, fact in METRICS.items() if metric in launch.numbers}
        kernels.append({"name": launch.name, **facts})
    return kernels


def compare(where: str, ours: list[dict], theirs: list[dict]) -> list[dict]:
    # Launches are matched by their order alone; PyTorch's own copies have no captured counterpart.
    if len(ours) != len(theirs):
        return [{"kernel": where, "fact": "kernels", "ours": len(ours), "ncu": len(theirs), "equal": False}]
    return [row for our, ncu in zip(ours, theirs, strict=True) for row in compare_kernels(where, our, ncu)]


def compare_kernels(where: str, our: dict, ncu: dict) -> list[dict]:
    fits = our["occupancy"]
    blocks, threads = product(our["grid"]), product(our["block"])
    facts = {
        "registers": our["registers"],
        "static_shared_bytes": our["static_shared_bytes"],
        "dynamic_shared_bytes": our["dynamic_shared_bytes"],
        "blocks": blocks,
        "threads": threads,
        "occupancy_percent": 100 * fits["fraction"],
        "waves": blocks / (fits["blocks_per_sm"] * sms()),
    }
    rows = []
    for fact, value in facts.items():
        if fact in ncu:
            tolerance = {"waves": 0.01, "occupancy_percent": 0.01}.get(fact, 0.0)
            equal = abs(value - ncu[fact]) <= max(tolerance, tolerance * abs(value))
            name = f"{where} {size(our['case'])} {our['name']}"
            rows.append({"kernel": name, "fact": fact, "ours": value, "ncu": ncu[fact], "equal": equal})
    return rows


def size(case: dict) -> str:
    dims = [n for value in case["dims"].values() for n in (value if isinstance(value, list) else [value])]
    return " ".join(["x".join(map(str, dims)), case["dtype"], *map(str, case["options"].values())])


def product(dims: list[int]) -> int:
    x, y, z = dims
    return x * y * z


def sms() -> int:
    import torch

    return int(torch.cuda.get_device_properties(0).multi_processor_count)


def describe_differences(rows: list[dict]) -> str:
    return "; ".join(f"{r['fact']} {r['ours']:g}, {r['ncu']:g}" for r in rows if not r["equal"])


def write(out: Path, rows: list[dict], took_s: float) -> int:
    import torch
    import triton

    with (out / "facts_vs_ncu.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    by_kernel: dict[str, list[dict]] = {}
    for row in rows:
        by_kernel.setdefault(row["kernel"], []).append(row)
    equal = sum(r["equal"] for r in rows)
    lines = [
        "# Facts about kernels, kernellab's against Nsight Compute's",
        "",
        f"machine: {torch.cuda.get_device_name()}  ",
        f"date: {time.strftime('%Y-%m-%d')}  ",
        f"versions: torch {torch.__version__}, triton {triton.__version__}  ",
        "script: benchmarks/facts_vs_ncu.py",
        "",
        "| kernel | equal | where not: kernellab's, ncu's |",
        "|---|---|---|",
        *(
            f"| {name} | {sum(r['equal'] for r in facts)} of {len(facts)} | {describe_differences(facts)} |"
            for name, facts in by_kernel.items()
        ),
        "",
        f"{equal} of {len(rows)} facts equal; took {took_s:.0f} s.",
    ]
    (out / "facts_vs_ncu.md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))
    return 0 if equal == len(rows) else 1


if __name__ == "__main__":
    sys.exit(main())
