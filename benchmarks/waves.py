"""Does the predicted cost of a tail hold on a GPU? Twenty grids around wave boundaries, predicted and measured.

    python benchmarks/waves.py OUT [--resident 2] [--threads 256] [--rounds 15]

Blocks of equal, compute-bound work (timing/busy.cu). Shared memory limits them to `--resident` blocks per SM. Grids are
timed in rounds, in random order; a grid of 16 blocks per SM, which has no tail, gives the time of one block. Writes
waves.csv and waves.md to OUT. The exit code is 0 if at least 16 of the 20 predicted efficiencies are within 10 % of the
measured ones, and 3 without a GPU.
"""

from __future__ import annotations

import argparse
import csv
import os
import platform
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT / "src"), os.environ.get("PYTHONPATH")]))

from kernellab.gpumodel.occupancy import occupancy, shared_bytes_for
from kernellab.gpumodel.waves import Waves, waves
from kernellab.machine.chips import chip
from kernellab.machine.environment import gpus, version
from kernellab.running.parent.device import describe_gpu, time_grids

REGISTERS = 32  # at most, of busy.cu
WITHIN, ENOUGH = 0.10, 16


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path, metavar="OUT")
    parser.add_argument("--resident", type=int, default=2, help="blocks that fit on an SM")
    parser.add_argument("--threads", type=int, default=256, help="per block")
    parser.add_argument("--rounds", type=int, default=15)
    args = parser.parse_args()
    gpu = describe_gpu()
    if gpu is None:
        print("waves.py times grids on a GPU: there is no GPU here", file=sys.stderr)
        return 3
    import torch

    architecture, sms = chip(gpu["arch"]), gpu["sms"]
    shared = shared_bytes_for(architecture, args.threads, REGISTERS, args.resident)
    per_sm = occupancy(architecture, args.threads, REGISTERS, shared)
    measurement = time_grids(grids_around_boundaries(sms, args.resident), args.threads, shared, rounds=args.rounds)
    rows = []
    for timed in measurement.grids:
        prediction = waves(timed["blocks"], sms, per_sm, architecture)
        rows.append(row(prediction, timed["ms"], measurement.block_ms))
    block = f"{args.threads} threads, {shared} bytes of shared memory, {per_sm.blocks_per_sm} on an SM"
    facts = {
        "machine": f"{gpu['name']}, {sms} SMs, driver {', '.join(sorted({g['driver'] for g in gpus()}))}",
        "date": time.strftime("%Y-%m-%d"),
        "versions": f"torch {torch.__version__}, CUDA {torch.version.cuda}, Python {platform.python_version()}, "
        f"kernellab {version('kernellab')}",
        "block": f"{block}, {measurement.block_ms:.3f} ms each",
        "trust": "; ".join(measurement.doubts) or "trusted",
        "script": f"benchmarks/waves.py --resident {args.resident} --threads {args.threads} --rounds {args.rounds}",
    }
    return write(args.out, facts, rows)


def grids_around_boundaries(sms: int, resident: int) -> list[int]:
    """Four grids around each of five multiples of the SMs: one block fewer, the multiple, one more, a quarter more.

    The multiples are one, two and four blocks per SM and two ends of resident waves; where these coincide, others.
    """
    multiples = list(dict.fromkeys([1, 2, 4, 2 * resident, 3 * resident, 6, 8]))[:5]
    return [m * sms + more for m in sorted(multiples) for more in (-1, 0, 1, sms // 4)]


def row(prediction: Waves, ms: float, block_ms: float) -> dict:
    """The predicted efficiency, and the efficiency that follows from the measured time."""
    blocks_per_sm = prediction.blocks / prediction.sms
    ideal_ms = blocks_per_sm * block_ms
    measured = ideal_ms / ms
    return {
        "blocks": prediction.blocks,
        "per_sm": round(blocks_per_sm, 3),
        "governs": prediction.governs,
        "predicted_ms": ideal_ms / prediction.efficiency,
        "measured_ms": ms,
        "predicted_efficiency": prediction.efficiency,
        "measured_efficiency": measured,
        "error": prediction.efficiency / measured - 1,
    }


def write(out: Path, facts: dict[str, str], rows: list[dict]) -> int:
    out.mkdir(parents=True, exist_ok=True)
    with (out / "waves.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    close = sum(abs(r["error"]) <= WITHIN for r in rows)
    lines = [
        "# Waves, predicted and measured",
        "",
        *(f"- {name}: {value}" for name, value in facts.items()),
        "",
        "| blocks | per SM | governs | predicted ms | measured ms | predicted efficiency | measured | error |",
        "|---:|---:|---|---:|---:|---:|---:|---:|",
        *(
            f"| {r['blocks']} | {r['per_sm']:.2f} | {r['governs']} | {r['predicted_ms']:.3f} | {r['measured_ms']:.3f} "
            f"| {r['predicted_efficiency']:.1%} | {r['measured_efficiency']:.1%} | {r['error']:+.1%} |"
            for r in rows
        ),
        "",
        f"{close} of {len(rows)} within {WITHIN:.0%}.",
    ]
    (out / "waves.md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))
    return 0 if close >= ENOUGH * len(rows) / 20 else 1


if __name__ == "__main__":
    sys.exit(main())
