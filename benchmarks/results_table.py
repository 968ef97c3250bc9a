"""Turns records into the Markdown tables of docs/results/.

python benchmarks/results_table.py RECORD.json [RECORD.json ...] > table.md
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))

from kernellab.record.verdict import derive
from kernellab.reporting.text import numbers as words

HEAD = "| op | size | dtype | impl | median | 99 % | GB/s | of copy | over manual | kernels | error (peer's) |"


def main() -> None:
    records = [derive(json.loads(Path(name).read_text())) for name in sys.argv[1:]]
    _stamp(records[0])
    print(HEAD)
    print("|" + "---|" * HEAD.count(" |"))
    for record in records:
        for result in record["results"]:
            if result["derived"]["time"] is not None:
                print(_row(result))


def _stamp(record: dict) -> None:
    env, machine = record["environment"], record["machine"]
    versions = ", ".join(f"{k} {v}" for k, v in env["packages"].items() if v)
    ceilings = machine["ceilings"]
    rates = ", ".join(f"{k} {v:.3g}" for k, v in ceilings["matmul_tflops"].items())
    driver = f", driver {env['gpus'][0]['driver']}" if machine["device"] != "cpu" else ""
    name = (
        env["gpus"][0]["name"] if machine["device"] != "cpu" else f"{env['cpu']['name']}, {env['cpu']['cores']} cores"
    )
    print(f"- machine: {name}{driver}")
    print(f"- date: {ceilings['measured_at'][:10]}")
    print(f"- versions: Python {env['python']}, {versions}")
    print(f"- measured ceilings: copy {ceilings['copy_gbps']:.0f} GB/s; matmul TFLOP/s {rates}")
    print()


def _row(result: dict) -> str:
    d, case = result["derived"], result["case"]
    time, base = d["time"], d["speedup"]["baseline"]
    check = result["check"]
    cells = [
        result["op"],
        words.size(case),
        case["dtype"],
        result["impl"],
        words.duration(time["median_us"]),
        words.spread(time["median_us"], time["low_us"], time["high_us"]),
        f"{d['limit']['gbps']:.0f}" if d["limit"]["gbps"] >= 100 else f"{d['limit']['gbps']:.1f}",
        f"{d['limit']['fraction']:.3f}",
        f"{base['median']:.2f}×" if base else "–",
        str(len(result["kernels"])) if result["kernels"] is not None else "–",
        f"{check['errors']['max']:.2g} ({check['peer']['max']:.2g})",
    ]
    return "| " + " | ".join(cells) + " |"


if __name__ == "__main__":
    main()
