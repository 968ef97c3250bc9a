"""Is matmul right, and how far is each step of its ladder from cuBLAS? What does max-autotune gain for the MLP?

    python benchmarks/matmul.py OUT [--minutes 25] [--steps check,times]
    python benchmarks/matmul.py OUT --tune [--minutes 10]
    python benchmarks/matmul.py OUT --plan
    python benchmarks/matmul.py OUT --static
    python benchmarks/matmul.py OUT --page

Goals in bfloat16 on one H200, at 4096³, 8192³ and three products of transformers: Triton at 0.95 of cuBLAS's speed or
more, the last step in CUDA C++ at 0.90 or more. `torch` is cuBLAS. Every ratio is of the same rounds, with its 99 %
interval.

Each step is one command of klab. Steps that OUT has are not run again; one that was interrupted continues. After
`--minutes` the running command is interrupted. Tables are printed at the end. `--tune` times the candidates of
benchmarks/matmul_tiles.py instead, the fastest first: the tables of ops/matmul/triton.py and cuda.py should name these.
`--static` times nothing and needs no GPU: it compiles the ladder for an H200. `--page` writes the tables of
docs/matmul.md, and docs/results/matmul-h200.md where anything was measured.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))

from kernellab.explaining.run_explanation import explain_run
from kernellab.gpumodel.device import Device
from kernellab.record.reading import load
from kernellab.record.verdict import derive
from kernellab.reporting.sentences.explanation import headline
from kernellab.reporting.text import numbers as words
from kernellab.stats.intervals import FEWEST, by_round, median_interval, paired_ratios
from ladder import steps_of

PAGE, RESULTS = ROOT / "docs" / "matmul.md", ROOT / "docs" / "results" / "matmul-h200.md"
TILES, MLP = "benchmarks/matmul_tiles.py", "benchmarks/matmul_mlp.py"
# M×K×N. The last three: tokens × hidden × inner of an MLP, back, and queries, keys and values of attention together.
SIZES = ("4096x4096x4096", "8192x8192x8192", "8192x4096x14336", "8192x14336x4096", "8192x4096x12288")
GOALS = {"triton": 0.95, "cuda": 0.90}
GPU = "h200"  # of the database
_INTERRUPT_S, _LEAST_LEFT_S = 30.0, 40.0

Result = dict[str, Any]


@dataclass(frozen=True)
class Step:
    name: str
    command: tuple[str, ...]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--minutes", type=float, default=25.0, help="after which the running command is interrupted")
    parser.add_argument("--seconds", default="1", help="of timing for each implementation and case")
    parser.add_argument("--steps", help="only these, separated by commas")
    parser.add_argument("--tune", action="store_true", help="time candidates for the tables of tiles")
    parser.add_argument("--static", action="store_true", help="time nothing: compile the ladder for an H200")
    parser.add_argument("--plan", action="store_true", help="what is left to do")
    parser.add_argument("--page", action="store_true", help="write the pages, from the records in OUT")
    args = parser.parse_args()
    args.out = args.out.resolve()
    if args.page:
        write_pages(args.out)
        return
    chosen = tuning_steps() if args.tune else static_steps() if args.static else measuring_steps(args.seconds)
    if args.steps:
        chosen = [step for step in chosen if step.name in args.steps.split(",")]
    left = [step for step in chosen if not is_done(args.out, step)]
    if args.plan:
        print(*(f"{step.name}: klab {' '.join(step.command)}" for step in left), f"{len(left)} steps left", sep="\n")
        return
    end = time.monotonic() + 60 * args.minutes
    for step in left:
        if time.monotonic() > end - _LEAST_LEFT_S:
            break
        run_step(args.out, step, end)
    print(*report(args.out, chosen), sep="\n")


# Steps -------------------------------------------------------------------------------------------------


def measuring_steps(seconds: str) -> list[Step]:
    timing = ("--seconds", seconds, "--timeout", "600")
    bench = ("bench", "matmul", *timing, "--impl")
    studies = ",".join(step.impl for step in steps_of("matmul"))
    ladder = ("explain", "matmul", "--impl", studies, "--shape", SIZES[0], "--seconds", "0.3", "--timeout", "300")
    in_tf32 = ("--dtype", "float32", "--opt", "fp32_precision=tf32")
    return [
        Step("check", ("check", "matmul", "--impl", studies, "--quick", "--timeout", "300")),
        Step("times", (*bench, "torch,compile,triton,cuda", "--shape", ",".join(SIZES), "--dtype", "bfloat16")),
        Step("ladder-bfloat16", (*ladder, "--dtype", "bfloat16")),
        Step("ladder-float32", (*ladder, "--dtype", "float32")),
        Step("ladder-tf32", (*ladder, *in_tf32)),
        Step("mlp", ("bench", MLP, *timing, "--impl", "manual,compile*", "--pass", "forward,backward")),
        Step(
            "backward",
            (*bench, "torch,triton,cuda", "--shape", SIZES[0], "--dtype", "bfloat16,float32", "--pass", "backward"),
        ),
        Step("float16", (*bench, "torch,triton,cuda", "--shape", ",".join(SIZES[:2]), "--dtype", "float16")),
    ]


def static_steps() -> list[Step]:
    """The ladder without times."""
    static = ("--static", "--gpu", GPU)
    ladders = [step for step in measuring_steps("0") if step.name.startswith("ladder-")]
    return [Step(f"{step.name}-static", (*_without_timing(step.command), *static)) for step in ladders]


def _without_timing(command: tuple[str, ...]) -> tuple[str, ...]:
    timed = {i for i, word in enumerate(command) if word in ("--seconds", "--timeout")}
    return tuple(word for i, word in enumerate(command) if i not in timed and i - 1 not in timed)


def tuning_steps() -> list[Step]:
    timing = ("--seconds", "0.3", "--timeout", "300", "--only-times", "--dtype", "bfloat16")
    return [
        Step(f"tune-{size}", ("bench", TILES, "--impl", "torch,triton-*x*,cuda-*x*", "--shape", size, *timing))
        for size in SIZES
    ]


def is_done(out: Path, step: Step) -> bool:
    return (out / step.name / "exit-code").exists()


def run_step(out: Path, step: Step, end: float) -> None:
    """Run klab, and interrupt it at the end. It keeps what is finished, and continues the next time."""
    folder = out / step.name
    begun = (folder / "run" / "journal.jsonl").exists() and step.command[0] != "explain"
    if not begun:  # `klab explain` cannot continue
        shutil.rmtree(folder / "run", ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    place = ("--resume" if begun else "--out", str(folder / "run"))
    path = os.pathsep.join([str(ROOT / "src"), *filter(None, [os.environ.get("PYTHONPATH")])])
    began = time.monotonic()
    with (folder / "printed.txt").open("a") as output:
        # In this repository: the record states its commit.
        command = [sys.executable, "-m", "kernellab", *step.command, *place]
        process = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": path}, stdout=output, cwd=ROOT)
        try:
            code = process.wait(max(0.0, end - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(_INTERRUPT_S)
            except subprocess.TimeoutExpired:
                process.kill()
            code = None
    if code in (0, 1, 3):  # 1 and 3: something is wrong, or cannot be told, as the tables say
        (folder / "exit-code").write_text(str(code))
    print(f"{step.name}: exit code {code} after {time.monotonic() - began:.0f} s", flush=True)


# What was measured -------------------------------------------------------------------------------------


def record_of(out: Path, name: str) -> dict[str, Any] | None:
    """What a step has finished; None where nothing is."""
    folder = out / name / "run"
    if not (folder / "journal.jsonl").exists():
        return None
    return derive(load(folder))  # type: ignore[return-value]


def report(out: Path, steps: list[Step]) -> Iterator[str]:
    for step in steps:
        record = record_of(out, step.name)
        if record is None:
            yield f"{step.name}: not measured"
        elif step.command[0] == "check":
            yield from check_lines(record)
        elif step.name.startswith("tune-"):
            yield from [f"{step.name}, the fastest first:", *time_lines(record, fastest_first=True)]
        elif "--static" not in step.command:
            yield from [f"{step.name}:", *time_lines(record), *gain_lines(record)]
    times = record_of(out, "times")
    if times:
        yield from goal_lines(times)


def check_lines(record: dict[str, Any]) -> Iterator[str]:
    for battery in record["batteries"]:
        failures = battery["failures"]
        first = f", the first at {failures[0]['label']}: {failures[0]['reason']}" if failures else ""
        yield f"- `{battery['impl']}`: {words.count(battery['tried'], 'trial')}, {len(failures)} failed{first}"


def time_lines(record: dict[str, Any], *, fastest_first: bool = False) -> Iterator[str]:
    """A line for each time: with the speed over torch, or over `manual` where there is no torch."""
    cells = [(result, name, found) for result in record["results"] for name, found in passes_of(result)]
    if fastest_first:
        cells.sort(key=lambda cell: cell[2]["time"]["median_us"] if cell[2] and cell[2]["time"] else float("inf"))
    yield "| size | dtype | pass | impl | time | TFLOP/s | over the baseline | trust |"
    yield "|---|---|---|---|---|---|---|---|"
    for result, pass_name, found in cells:
        case = result["case"]
        label = [words.size(case), dtype_of(case), pass_name, f"`{result['impl']}`"]
        if not found or not found["time"]:
            reason = result["derived"]["reason"] or result["derived"]["timing"]["reason"]
            yield "| " + " | ".join([*label, "–", "–", f"{result['derived']['status']}: {reason}", ""]) + " |"
            continue
        limit, trust = found["limit"], found["trust"]["verdict"] if found["trust"] else ""
        tflops = f"{limit['tflops']:.1f}" if limit and limit["tflops"] else "–"
        cells = [*label, words.duration(found["time"]["median_us"]), tflops, ratio(found), trust]
        yield "| " + " | ".join(cells) + " |"


def passes_of(result: Result) -> list[tuple[str, Any]]:
    return list(result["derived"]["passes"].items()) or [("forward", None)]


def dtype_of(case: dict[str, Any]) -> str:
    return "tf32" if case["options"].get("fp32_precision") == "tf32" else str(case["dtype"])


def ratio(found: dict[str, Any]) -> str:
    base = found["speedup"]["baseline"]
    return f"{base['median']:.3f} ({base['low']:.3f}–{base['high']:.3f}) × {base['over']}" if base else "–"


def gain_lines(record: dict[str, Any]) -> Iterator[str]:
    """How many times as fast max-autotune is as torch.compile's defaults, where both were timed in the same rounds."""
    series = {
        (words.size(r["case"]), entry["pass"], r["impl"]): by_round(entry["samples_us"], entry["rounds"])
        for r in record["results"]
        for entry in r["times"]
        if (entry["timer"], entry["cache"]) == main_series(r)
    }
    for (size, pass_name, impl), tuned in series.items():
        plain = series.get((size, pass_name, "compile"))
        ratios = paired_ratios(tuned, plain) if plain and impl == "compile-max-autotune" else []
        if len(ratios) >= FEWEST:
            middle, (low, high) = statistics.median(ratios), median_interval(ratios)
            yield f"- max-autotune, {size}, {pass_name}: {middle:.3f}× ({low:.3f}–{high:.3f}) as fast"


def main_series(result: Result) -> tuple[str, str] | None:
    """Timer and cache of the series that verdicts are about."""
    time_ = result["derived"]["time"]
    return (time_["timer"], time_["cache"]) if time_ else None


def goal_lines(record: dict[str, Any]) -> Iterator[str]:
    for impl, goal in GOALS.items():
        found = [r for r in record["results"] if r["impl"] == impl]
        bases = {words.size(r["case"]): r["derived"]["speedup"]["baseline"] for r in found}
        speeds = {size: base["median"] if base else None for size, base in bases.items()}
        missed = {size: speed for size, speed in speeds.items() if speed is None or speed < goal}
        said = [f"{size}: {'no time' if speed is None else f'{speed:.3f}'}" for size, speed in missed.items()]
        where = f"; missed at {', '.join(said)}" if said else ""
        yield f"{impl}, goal {goal}: reached at {len(speeds) - len(missed)} of {len(SIZES)} sizes{where}"


# The ladder by its sizes -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Reuse:
    """What a block of a step computes, and what a thread of it computes, or a warp with tensor cores. `kept`: bytes of
    an element where threads read it; None: as in memory."""

    block: tuple[int, int]
    each: tuple[int, int]
    tensor: bool = False
    kept: int | None = None


REUSE = {
    "cuda-naive": Reuse((32, 8), (1, 1)),
    "cuda-coalesced": Reuse((8, 32), (1, 1)),
    "cuda-shared": Reuse((32, 32), (1, 1), kept=4),
    "cuda-registers": Reuse((128, 128), (8, 8), kept=4),
    "cuda-vector": Reuse((128, 128), (8, 8), kept=4),
    "cuda-pipeline": Reuse((128, 128), (8, 8), kept=4),
    "cuda-tensor": Reuse((128, 256), (64, 64), tensor=True),
    "cuda-stages": Reuse((128, 256), (64, 64), tensor=True),
    "cuda-swizzle": Reuse((128, 256), (64, 64), tensor=True),
    "cuda": Reuse((128, 256), (64, 64), tensor=True),
    # wgmma: a warpgroup computes 64 rows.
    "triton-simple": Reuse((128, 256), (64, 256), tensor=True),
    "triton-grouped": Reuse((128, 256), (64, 256), tensor=True),
    "triton": Reuse((128, 256), (64, 256), tensor=True),
}
MULTIPLY_ADDS = Reuse((128, 128), (8, 8), kept=4)  # of the last steps for float32 as it is
L2_GBPS = 8906.0  # read by an H200: docs/device.md
BYTES_PER_CLOCK = 128  # of shared memory and L1, per SM


def reuse_of(impl: str, dtype: str) -> Reuse | None:
    reuse = REUSE.get(impl)
    return MULTIPLY_ADDS if reuse and reuse.tensor and dtype == "float32" else reuse


def intensity(tile: tuple[int, int], element_bytes: int) -> float:
    """Operations per byte: a tile of m × n takes m + n elements for m·n multiply-adds."""
    rows, cols = tile
    return 2 * rows * cols / ((rows + cols) * element_bytes)


def most_tflops(reuse: Reuse, dtype: str, device: Device) -> tuple[float, str]:
    """The most that a step can reach by its reuse, and what limits it."""
    element = bytes_of(dtype)
    near = "shared memory" if reuse.kept or reuse.tensor else "L1"
    near_gbps = device.sms * BYTES_PER_CLOCK * device.clock_mhz / 1e3
    limits = {
        "L2": intensity(reuse.block, element) * L2_GBPS / 1e3,
        near: intensity(reuse.each, reuse.kept or element) * near_gbps / 1e3,
    }
    if reuse.tensor:
        per_clock = device.chip.tensor_per_clock["tf32" if dtype == "tf32" else "bf16"]
        limits["tensor cores"] = device.sms * per_clock * device.clock_mhz / 1e6
    else:
        limits["multiply-adds"] = device.peak_matmul_tflops["float32"]
    limit = min(limits, key=lambda name: limits[name])
    return limits[limit], limit


def bytes_of(dtype: str) -> int:
    return 2 if dtype in ("bfloat16", "float16") else 4


# The pages ---------------------------------------------------------------------------------------------


HEAD = (
    "| step | flops/B from L2 | flops/B from shared | at most, TFLOP/s | limited by | registers | measured | TFLOP/s "
    "| of cuBLAS | gain | `klab explain` says |"
)


def write_pages(out: Path) -> None:
    PAGE.write_text(draw(PAGE.read_text(), out))
    if record_of(out, "times"):
        RESULTS.write_text(results_page(out))


def draw(page: str, out: Path) -> str:
    """The page with its tables from the records."""
    for dtype in ("bfloat16", "float32", "tf32"):
        page = fill(page, dtype, ladder_table(out, dtype))
    return fill(page, "machine", provenance(out))


def fill(page: str, name: str, text: str) -> str:
    """Replaces what is between `<!-- name -->` and `<!-- end -->`."""
    pattern = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end -->)", re.DOTALL)
    if not pattern.search(page):
        raise SystemExit(f"{PAGE.name} has no place <!-- {name} --> … <!-- end -->")
    return pattern.sub(lambda block: f"{block[1]}\n{text}\n\n{block[2]}", page)


def ladder_table(out: Path, dtype: str) -> str:
    measured = record_of(out, f"ladder-{dtype}")
    record = measured or record_of(out, f"ladder-{dtype}-static")
    explanations = explain_run(record, None if measured else GPU).explanations if record else []
    by_impl = {explanation.subject.impl: explanation for explanation in explanations}
    results = {result["impl"]: result for result in measured["results"]} if measured else {}
    device = Device.from_database(GPU)
    lines, before = [HEAD, "|" + "---|" * HEAD.count(" |")], {}
    for step in steps_of("matmul"):
        explanation = by_impl.get(step.impl)
        if explanation is None and record:
            continue  # not for this dtype
        reuse = reuse_of(step.impl, dtype)
        cells = ["–"] * 4
        if reuse:
            element = bytes_of(dtype)
            flows = intensity(reuse.block, element), intensity(reuse.each, reuse.kept or element)
            most, limit = most_tflops(reuse, dtype, device)
            cells = [*(f"{flow:.3g}" for flow in flows), f"{most:.3g}", limit]
        kernels = explanation.subject.kernels if explanation else []
        cells.append(str(kernels[0].registers) if kernels else "–")
        cells += measured_cells(results.get(step.impl), before, step.impl.partition("-")[0])
        lines.append("| " + " | ".join([f"`{step.impl}`", *cells, said_of(explanation)]) + " |")
    return "\n".join(lines)


def measured_cells(result: Result | None, before: dict[str, float], kind: str) -> list[str]:
    """Time, rate, speed over torch, and over the step before; `before` has the time of the last step of each kind."""
    found = result["derived"] if result else None
    if not found or not found["time"]:
        return ["–"] * 4
    us = found["time"]["median_us"]
    gain = f"{before[kind] / us:.2f}×" if kind in before else "–"
    before[kind] = us
    base, flops = found["speedup"]["baseline"], found["limit"]["flops"] if found["limit"] else {}
    rate = f"{sum(flops.values()) / us / 1e6:.3g}" if flops else "–"
    return [words.duration(us), rate, f"{base['median']:.3f}" if base else "–", gain]


def said_of(explanation: Any) -> str:
    return headline(explanation) if explanation else "no record"


def provenance(out: Path) -> str:
    record = next((r for name in ("bfloat16", "float32", "tf32") if (r := record_of(out, f"ladder-{name}"))), None)
    if record is None:
        return (
            "No step was timed yet: the columns from *measured* to *gain* are empty, and what `klab explain` says\n"
            "rests on a model. On a machine with an H200, `python benchmarks/matmul.py OUT` measures, and\n"
            "`python benchmarks/matmul.py OUT --page` writes the figures into this page."
        )
    return "\n".join(stamp(record))


def stamp(record: dict[str, Any]) -> list[str]:
    environment, machine = record["environment"], record["machine"]
    versions = ", ".join(f"{name} {version}" for name, version in environment["packages"].items() if version)
    gpu = environment["gpus"][0] if environment["gpus"] else {"name": "no GPU", "driver": "none"}
    ceilings = machine.get("ceilings")
    rates = ", ".join(f"{name} {rate:.3g}" for name, rate in ceilings["matmul_tflops"].items()) if ceilings else ""
    return [
        f"- machine: {gpu['name']}, driver {gpu['driver']}",
        f"- date: {record['began'][:10]}",
        f"- versions: Python {environment['python']}, {versions}",
        f"- measured ceilings: {f'matmul {rates} TFLOP/s' if rates else 'none'}",
        "- script: `benchmarks/matmul.py`",
    ]


def results_page(out: Path) -> str:
    times = record_of(out, "times")
    assert times is not None
    lines = ["# Matmul on an H200", "", *stamp(times), ""]
    lines += ["`torch` is cuBLAS, `compile` max-autotune. Speeds are medians of ratios within rounds, with their 99 %"]
    lines += ["intervals. The kernels are described in [Matmul](../matmul.md).", "", "## Goals", ""]
    lines += [f"- {line}" for line in goal_lines(times)]
    for step in measuring_steps("0"):
        record = record_of(out, step.name)
        lines += ["", f"## {step.name}", "", f"`klab {' '.join(step.command)}`", ""]
        if record is None:
            lines.append("Not measured.")
        else:
            lines += check_lines(record) if step.command[0] == "check" else time_lines(record)
            lines += [*gain_lines(record), *choice_lines(record)]
    return "\n".join(lines) + "\n"


def choice_lines(record: dict[str, Any]) -> Iterator[str]:
    """What max-autotune tried for each product, and what was fastest."""
    for result in record["results"]:
        for choice in (result["built"] or {}).get("tuned", []):
            candidates = choice.get("candidates", [])
            if candidates:
                fastest = ", ".join(f"{c['name']} {words.duration(c['us'])}" for c in candidates[:4] if c["us"])
                where = f"{words.size(result['case'])}, {result['impl']}, {choice['kernel']}"
                yield f"- {where}: {len(candidates)} candidates, {fastest}; it chose {json.dumps(choice['config'])}"


if __name__ == "__main__":
    main()
