"""Where do the times of kernellab and do_bench agree, and where do they differ? Needs a GPU.

    python benchmarks/agreement.py OUT_DIR

Above 100 µs: the medians of `klab bench` (events, cold) against triton.testing.do_bench with return_mode="median", on
the same inputs, each in processes of its own. At about 5, 7 and 10 µs: all of kernellab's timers, one call per
window, plain events and do_bench. Prints the tables of docs/results/timing-h200.md, writes agreement.json.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))

from kernellab.machine.environment import gpus

ENV = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
LARGE = {"gelu": "torch,triton", "square": "torch,triton", "softmax": "torch,triton", "add": "torch"}
SHAPES, DTYPES = "16384x8192,16384x16384", "float32,bfloat16"
SMALL = "256x4096,512x4096,896x4096"
PANEL = [("kernel", "cold"), ("graph", "cold"), ("events", "cold"), ("events", "warm"), ("host", "warm")]
OTHERS = ["held, one call", "plain events after a flush", "plain events", "do_bench"]


def main() -> int:
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    if not gpus():
        sys.exit("agreement.py compares the timers of a GPU: there is no GPU here")
    out = Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    large = [
        _bench(out, op, "--impl", impls, "--shape", SHAPES, "--dtype", DTYPES, "--only-times")
        for op, impls in LARGE.items()
    ]
    small = _bench(out, "gelu", "--impl", "triton", "--shape", SMALL, "--dtype", "float32", "--panel", name="panel")
    timed = [r for record in large for r in record["results"] if r["derived"]["time"]]
    others = _others(
        {"large": [_impl_at_case(r) for r in timed], "small": [_impl_at_case(r) for r in small["results"]]}
    )
    (out / "agreement.json").write_text(json.dumps({"large": large, "small": small, "others": others}))
    _stamp(small)
    _large_table(timed, others["large"])
    _small_table(small["results"], others["small"])
    print(f"An empty window, held: {others['null_window']:.2f} µs.")
    print(f"Launches that fit behind a held stream: {others['launch_queue']}.")
    return 0


def _impl_at_case(result: dict) -> dict:
    return {key: result[key] for key in ("op", "impl", "case")}


def _bench(out: Path, op: str, *options: str, name: str = "") -> dict:
    print(f"klab bench {op} {' '.join(options)}", file=sys.stderr, flush=True)
    command = [sys.executable, "-m", "kernellab", "bench", op, *options, "--json", "--out", str(out / (name or op))]
    done = subprocess.run(command, capture_output=True, text=True, env=ENV)
    if not done.stdout:
        sys.exit(done.stderr)
    return json.loads(done.stdout)


def _others(request: dict) -> dict:
    print("the other timers", file=sys.stderr, flush=True)
    command = [sys.executable, str(ROOT / "benchmarks" / "agreement_others.py")]
    done = subprocess.run(command, input=json.dumps(request), capture_output=True, text=True, env=ENV)
    if done.returncode:
        sys.exit(done.stderr)
    return json.loads(done.stdout)


# Tables ------------------------------------------------------------------------------------------------


def _stamp(record: dict) -> None:
    env = record["environment"]
    versions = ", ".join(f"{name} {version}" for name, version in env["packages"].items() if version)
    print(f"- machine: {env['gpus'][0]['name']}, driver {env['gpus'][0]['driver']}")
    print(f"- date: {time.strftime('%Y-%m-%d')}")
    print(f"- versions: Python {env['python']}, {versions}")
    print("- script: `benchmarks/agreement.py`\n")


def _large_table(timed: list[dict], others: list[dict]) -> None:
    print("| op | impl | size | dtype | kernellab, events, cold | do_bench, median | do_bench over kernellab |")
    print("|---|---|---|---|---|---|---|")
    differences = []
    for result, other in zip(timed, others, strict=True):
        ours, theirs = result["derived"]["time"]["median_us"], other["do_bench"]
        differences.append(theirs / ours - 1)
        cells = [result["op"], result["impl"], _size(result), result["case"]["dtype"]]
        print("|", " | ".join([*cells, f"{ours:.1f} µs", f"{theirs:.1f} µs", f"{100 * differences[-1]:+.2f} %"]), "|")
    middle, widest = statistics.median(differences), max(differences, key=abs)
    print(f"\n{len(differences)} pairs: median {100 * middle:+.2f} %, widest {100 * widest:+.2f} %.\n")


def _small_table(results: list[dict], others: list[dict]) -> None:
    columns = [*(f"{timer}, {cache}" for timer, cache in PANEL), "events, cold, minus an empty kernel"]
    print("| GeLU in Triton, µs |", " | ".join([*columns, *OTHERS]), "|")
    print("|---" * (1 + len(columns) + len(OTHERS)) + "|")
    for result, other in zip(results, others, strict=True):
        cells = [_panel(result, *row) for row in PANEL] + [_above_floor(result)]
        cells += [f"{other[name]:.2f}" for name in OTHERS]
        print("|", " | ".join([_size(result), *cells]), "|")
    print()


def _panel(result: dict, timer: str, cache: str) -> str:
    for entry in result["times"]:
        if (entry["timer"], entry["cache"]) == (timer, cache) and entry["samples_us"]:
            return f"{statistics.median(entry['samples_us']):.2f}"
    return "–"


def _above_floor(result: dict) -> str:
    entry = next(e for e in result["times"] if (e["timer"], e["cache"]) == ("events", "cold"))
    return f"{statistics.median(entry['samples_us']) - entry['floor_us']:.2f}"


def _size(result: dict) -> str:
    dims = result["case"]["dims"]
    return "×".join(map(str, [*dims["..."], dims["N"]]))


if __name__ == "__main__":
    sys.exit(main())
