"""Does the predicted cost of a tail hold on a GPU? Twenty grids around wave boundaries, predicted and measured.

    python benchmarks/waves.py OUT [--resident 2] [--threads 256] [--rounds 15]

Blocks of equal work, compute-bound (timing/busy.cu), `--resident` of them on an SM: shared memory is asked for so that
no more fit. Grids are timed in rounds, in random order; a grid of 16 blocks per SM, which has no tail, says what a
block takes. Writes waves.csv and waves.md to OUT. Exit code 0 when at least 16 of the 20 efficiencies are within 10 %
of the measured ones, 3 without a GPU.
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
from kernellab.gpumodel.waves import waves
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
        print("no GPU here: this measures one", file=sys.stderr)
        return 3
    known, sms = chip(gpu["arch"]), gpu["sms"]
    shared = shared_bytes_for(known, args.threads, REGISTERS, args.resident)
    held = occupancy(known, args.threads, REGISTERS, shared)
    found = time_grids(around(sms, args.resident), args.threads, shared, rounds=args.rounds)
    rows = []
    for timed in found["grids"]:
        told = waves(timed["blocks"], sms, held, known)
        rows.append(row(told.blocks, sms, told.governs, told.efficiency, timed["ms"], found["block_ms"]))
    block = f"{args.threads} threads, {shared} bytes of shared memory, {held.blocks_per_sm} on an SM"
    facts = {
        "machine": f"{gpu['name']}, {sms} SMs, driver {', '.join(sorted({g['driver'] for g in gpus()}))}",
        "date": time.strftime("%Y-%m-%d"),
        "versions": f"torch {found['torch']}, CUDA {found['cuda']}, Python {platform.python_version()}, "
        f"kernellab {version('kernellab')}",
        "block": f"{block}, {found['block_ms']:.3f} ms each",
        "trust": "; ".join(found["doubts"]) or "trusted",
        "script": f"benchmarks/waves.py --resident {args.resident} --threads {args.threads} --rounds {args.rounds}",
    }
    return write(args.out, facts, rows)


def around(sms: int, resident: int) -> list[int]:
    """One block less than, exactly, one more than and a quarter of the SMs more than five multiples of the SMs.

    They are one, two and four blocks per SM, then the ends of resident waves; others where those are the same.
    """
    multiples = list(dict.fromkeys([1, 2, 4, 2 * resident, 3 * resident, 6, 8]))[:5]
    return [m * sms + more for m in sorted(multiples) for more in (-1, 0, 1, sms // 4)]


def row(blocks: int, sms: int, governs: str, efficiency: float, ms: float, block_ms: float) -> dict:
    """The efficiency predicted, and the one the measured time comes to."""
    ideal_ms = blocks / sms * block_ms
    measured = ideal_ms / ms
    return {
        "blocks": blocks,
        "per_sm": round(blocks / sms, 3),
        "governs": governs,
        "predicted_ms": ideal_ms / efficiency,
        "measured_ms": ms,
        "predicted_efficiency": efficiency,
        "measured_efficiency": measured,
        "error": efficiency / measured - 1,
    }


def write(out: Path, facts: dict[str, str], rows: list[dict]) -> int:
    out.mkdir(parents=True, exist_ok=True)
    with (out / "waves.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    good = sum(abs(r["error"]) <= WITHIN for r in rows)
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
        f"{good} of {len(rows)} within {WITHIN:.0%}.",
    ]
    (out / "waves.md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))
    return 0 if good >= ENOUGH * len(rows) / 20 else 1


if __name__ == "__main__":
    sys.exit(main())
