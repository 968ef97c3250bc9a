"""Does the predicted cost of a tail hold on a GPU? Twenty grids around wave boundaries, predicted and measured.

    python benchmarks/waves.py OUT [--resident 2] [--rounds 15]

Blocks of equal work, compute-bound (waves.cu), `--resident` of them on an SM: shared memory is asked for so that no
more fit. Grids are timed in rounds, in random order; a grid of 16 blocks per SM, which has no tail, says what a block
takes. Writes waves.csv and waves.md to OUT. Exit code 0 when at least 16 of the 20 efficiencies are within 10 %.
"""

from __future__ import annotations

import argparse
import csv
import platform
import random
import statistics
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))

from kernellab.explaining.occupancy import Occupancy, occupancy
from kernellab.explaining.waves import waves
from kernellab.launch.cuda import kernel
from kernellab.machine.chips import Chip, chip
from kernellab.machine.environment import gpus, version
from kernellab.machine.telemetry import telemetry_for
from kernellab.trust import reasons

THREADS, REGISTERS = 256, 32
BLOCK_MS = 1.0
REFERENCE = 16  # blocks per SM
WITHIN, ENOUGH = 0.10, 16


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path, metavar="OUT")
    parser.add_argument("--resident", type=int, default=2, help="blocks that fit on an SM")
    parser.add_argument("--rounds", type=int, default=15)
    args = parser.parse_args()
    import torch

    if not torch.cuda.is_available():
        print("no GPU here: this measures one", file=sys.stderr)
        return 3
    device = torch.device("cuda", 0)
    facts = torch.cuda.get_device_properties(device)
    known = chip(f"{facts.major}.{facts.minor}")
    shared = shared_for(known, args.resident)
    held = occupancy(known, THREADS, REGISTERS, shared)
    sms = facts.multi_processor_count
    grids = around(sms, args.resident)
    telemetry = telemetry_for(f"GPU-{facts.uuid}")
    times = measure(torch, device, [*grids, REFERENCE * sms], shared, args.rounds, telemetry)
    block_ms = statistics.median(times[REFERENCE * sms]) / REFERENCE
    rows = [row(grid, sms, held, known, block_ms, times[grid]) for grid in grids]
    doubts = reasons(telemetry.columns(), [], device="cuda", steady=None, interval=None)
    report = {
        "machine": f"{facts.name}, {sms} SMs, driver {gpus()[0]['driver']}",
        "date": time.strftime("%Y-%m-%d"),
        "versions": f"torch {torch.__version__}, CUDA {torch.version.cuda}, Python {platform.python_version()}, "
        f"kernellab {version('kernellab')}",
        "block": f"{THREADS} threads, {shared} bytes of shared memory, {held.blocks_per_sm} on an SM, "
        f"{block_ms:.3f} ms each",
        "trust": "; ".join(f"{d['name']}: {d['detail']}" for d in doubts) or "trusted",
    }
    return write(args.out, report, rows)


def around(sms: int, resident: int) -> list[int]:
    """One block less than, exactly, one and a quarter of the SMs more than: one, two and four blocks per SM, and the
    second and third resident wave."""
    multiples = dict.fromkeys([1, 2, 4, 2 * resident, 3 * resident, 6, 8, 10])
    return [m * sms + more for m in list(multiples)[:5] for more in (-1, 0, 1, sms // 4)]


def shared_for(known: Chip, resident: int) -> int:
    """So much shared memory that exactly so many blocks fit."""
    unit = known.shared_unit_bytes
    asked = known.shared_per_sm_bytes // resident // unit * unit - known.shared_reserved_bytes
    asked = min(asked, known.shared_per_block_bytes)
    found = occupancy(known, THREADS, REGISTERS, asked).blocks_per_sm
    if found != resident:
        sys.exit(
            f"{resident} blocks of {THREADS} threads cannot be had on {known.arch}: {found} fit; another --resident"
        )
    return asked


def measure(torch, device, grids, shared, rounds, telemetry) -> dict[int, list[float]]:
    """Milliseconds of each grid, one per round."""
    work = kernel(Path(__file__).with_name("waves.cu"), "work")
    out = torch.zeros(1, device=device)
    sms = torch.cuda.get_device_properties(device).multi_processor_count

    def run(grid: int, steps: int) -> float:
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize(device)
        start.record()
        work(grid, THREADS, out, steps, shared=shared)
        end.record()
        end.synchronize()
        return start.elapsed_time(end)

    steps = 1000
    for _ in range(3):  # the first loads the kernel, the clock comes up
        steps = max(1, int(steps * BLOCK_MS / run(sms, steps)))
    for _ in range(20):
        run(REFERENCE * sms, steps)
    order, times = random.Random(0), {grid: [] for grid in grids}
    for _ in range(rounds):
        for grid in order.sample(grids, len(grids)):
            times[grid].append(run(grid, steps))
            telemetry.sample()
    return times


def row(grid: int, sms: int, held: Occupancy, known: Chip, block_ms: float, times: list[float]) -> dict:
    """The efficiency predicted, and the one the measured time comes to."""
    found = waves(grid, sms, held, known)
    ms = statistics.median(times)
    measured = grid / sms * block_ms / ms
    return {
        "blocks": grid,
        "per_sm": round(grid / sms, 3),
        "governs": found.governs,
        "predicted_ms": grid / sms * block_ms / found.efficiency,
        "measured_ms": ms,
        "predicted_efficiency": found.efficiency,
        "measured_efficiency": measured,
        "error": found.efficiency / measured - 1,
    }


def write(out: Path, report: dict[str, str], rows: list[dict]) -> int:
    out.mkdir(parents=True, exist_ok=True)
    with (out / "waves.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    good = sum(abs(r["error"]) <= WITHIN for r in rows)
    lines = [
        "# Waves, predicted and measured",
        "",
        *(f"{name}: {value}  " for name, value in report.items()),
        "script: benchmarks/waves.py",
        "",
        "| blocks | per SM | governs | predicted ms | measured ms | predicted efficiency | measured | error |",
        "|---:|---:|---|---:|---:|---:|---:|---:|",
        *(
            f"| {r['blocks']} | {r['per_sm']:.2f} | {r['governs']} | {r['predicted_ms']:.3f} | {r['measured_ms']:.3f} "
            f"| {r['predicted_efficiency']:.1%} | {r['measured_efficiency']:.1%} | {r['error']:+.1%} |"
            for r in rows
        ),
        "",
        f"{good} of {len(rows)} within {WITHIN:.0%}.",
    ]
    (out / "waves.md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))
    return 0 if good >= ENOUGH * len(rows) / 20 else 1


if __name__ == "__main__":
    sys.exit(main())
