"""What does each step from a textbook kernel to a shipped one gain, and was that to be expected?

    python benchmarks/ladder.py OUT             on a GPU: time and explain every step, and check it; several minutes
    python benchmarks/ladder.py OUT --static    without a GPU: what the steps compile to for an H200
    python benchmarks/ladder.py OUT --page      write the tables of docs/ladder.md from the records in OUT

The steps are the studies of gelu, softmax and layer_norm. All steps of an op at one size and dtype are timed
interleaved, with a cold cache, after they were checked at that case; a small battery then shows which mistakes they
have elsewhere. Runs that are in OUT already are not made again, so that after `--minutes` the same command goes on.

Predicted times follow from the machine code and the launch, before anything is timed:

- A row is read as often as the kernel has loops that load. The first read comes from memory. So do the others, unless
  the rows that all SMs work on at a time fit in half of L2, which is assumed to be twice as fast.
- Accesses that touch more 32-byte sectors than their bytes fill move the sectors.
- The other resources of the time model (docs/explain.md), the latency of loads and the issue of instructions among
  them, are needed once per read. The slowest of all is the predicted time.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))

from kernellab.declaration.catalogue import catalogue
from kernellab.explaining.explanation import Explanation
from kernellab.explaining.run_explanation import explain_run
from kernellab.gpumodel.fusion import L2_OVER_MEMORY
from kernellab.gpumodel.kernel import Kernel
from kernellab.record.batteries import BatterySummary
from kernellab.record.derived import DerivedRecord, DerivedResult
from kernellab.record.reading import load
from kernellab.record.verdict import derive
from kernellab.reporting.sentences.explanation import headline
from kernellab.reporting.text import numbers as words

PAGE = ROOT / "docs" / "ladder.md"
SIZES = {"gelu": ("16384x16384",), "softmax": ("16384x4096", "4096x65536"), "layer_norm": ("8192x16384",)}
DTYPES = ("bfloat16", "float32")
GPU = "h200"  # for which steps are compiled where nothing is timed
KEPT_IN_L2 = 0.5  # of it, as in kernellab.gpumodel.fusion

HEAD = "| step | access | reads | occupancy | predicted | measured | GB/s | of copy | gain | `klab explain` says |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--seconds", default="0.2", help="of timing for each step and case")
    parser.add_argument("--minutes", type=float, default=600, help="after which no other run is begun")
    parser.add_argument("--static", action="store_true", help="time nothing: compile for an H200 and predict")
    parser.add_argument("--page", action="store_true", help="write the tables of docs/ladder.md")
    args = parser.parse_args()
    if args.page:
        PAGE.write_text(draw(PAGE.read_text(), args.out))
        return
    end = time.monotonic() + 60 * args.minutes
    for name, command in _commands(args.static, args.seconds):
        if time.monotonic() < end and not (args.out / name).exists():
            _klab(args.out, name, *command)


def _commands(static: bool, seconds: str) -> Iterator[tuple[str, list[str]]]:
    """The name of each run and its command: times first, then the batteries."""
    impls = {op: ",".join(step.impl for step in steps_of(op)) for op in SIZES}
    for op, sizes in SIZES.items():
        for size in sizes:
            case = [op, "--impl", impls[op], "--shape", size, "--dtype", ",".join(DTYPES)]
            how = ["--static", "--gpu", GPU] if static else ["--seconds", seconds]
            yield f"{op}-{size}{'-static' if static else ''}", ["explain", *case, *how]
    for op in () if static else SIZES:
        yield f"{op}-check", ["check", op, "--impl", impls[op], "--quick"]


def _klab(out: Path, name: str, *command: str) -> None:
    """A run that is interrupted does not get its name."""
    part = out / f"{name}.part"
    shutil.rmtree(part, ignore_errors=True)
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    began = time.monotonic()
    words = [sys.executable, "-m", "kernellab", *command, "--out", str(part)]
    done = subprocess.run(words, env=env, stdout=subprocess.PIPE, text=True)
    if done.returncode in (0, 1):  # 1: something is wrong, as it should be
        (part / "printed.txt").write_text(done.stdout)
        part.rename(out / name)
    print(f"{name}: exit code {done.returncode} after {time.monotonic() - began:.0f} s", flush=True)


# Steps -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Step:
    impl: str
    wrong_on_purpose: bool = False


def steps_of(op: str) -> list[Step]:
    """The studies in CUDA C++ and the kernel they lead to, then the same in Triton, then PyTorch's own op."""
    entry = next(entry for entry in catalogue() if entry.name == op)
    steps = []
    for kind in ("cuda", "triton"):
        steps += [Step(i, i in entry.flaws) for i, k in entry.impls.items() if i in entry.studies and k.name == kind]
        steps.append(Step(kind))
    return [*steps, Step("torch")]


def slowest_kernel(explanation: Explanation) -> Kernel:
    """Of an implementation with machine code."""
    return next(kernel for kernel in explanation.subject.kernels if kernel.name == explanation.prediction.kernel)


def reads_of_a_row(explanation: Explanation) -> int:
    """How often the slowest kernel reads its input: once for each loop that loads, and once where there is none."""
    return max(1, slowest_kernel(explanation).loading_loops)


def predict_us(explanation: Explanation) -> float | None:
    """The time that the docstring of this module predicts; None without machine code."""
    subject, prediction = explanation.subject, explanation.prediction
    if prediction is None or not subject.cost or not subject.device:
        return None
    kernel = slowest_kernel(explanation)
    device, reads = subject.device, reads_of_a_row(explanation)
    read_bytes = subject.cost["bytes_read"] * max(1.0, kernel.sectors or 1.0)
    at_a_time = min(1.0, (kernel.blocks_per_sm or 1) * device.sms / kernel.blocks)  # share of all blocks
    in_l2 = at_a_time * subject.cost["bytes_read"] <= KEPT_IN_L2 * device.l2_bytes
    from_memory = (1 if in_l2 else reads) * read_bytes + subject.cost["bytes_written"]
    from_l2 = reads * read_bytes / L2_OVER_MEMORY if in_l2 else 0.0
    bytes_us = max(from_memory, from_l2) / device.gbps / 1e3
    return max(bytes_us, reads * prediction.estimate.time_us_with(memory=0.0))


# The page ----------------------------------------------------------------------------------------------


def draw(page: str, out: Path) -> str:
    """The page with its tables from the records."""
    for op, sizes in SIZES.items():
        tables = [_table(op, size, dtype, out) for size in sizes for dtype in DTYPES]
        page = _fill(page, op, "\n\n".join([*tables, *_check_lines(op, out)]))
    return _fill(page, "machine", _provenance(out))


def _fill(page: str, name: str, text: str) -> str:
    """Replaces what is between `<!-- name -->` and `<!-- end -->`."""
    pattern = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end -->)", re.DOTALL)
    if not pattern.search(page):
        raise SystemExit(f"{PAGE.name} has no place <!-- {name} --> … <!-- end -->")
    return pattern.sub(lambda block: f"{block[1]}\n{text}\n\n{block[2]}", page)


def _record(out: Path, name: str) -> DerivedRecord | None:
    """The record of a run on a GPU, else the static one; None if there is neither."""
    folder = next((f for f in (out / name, out / f"{name}-static") if f.exists()), None)
    return derive(load(folder)) if folder else None


def _table(op: str, size: str, dtype: str, out: Path) -> str:
    lines = [f"**{size.replace('x', '×')}, {dtype}**", "", HEAD, "|" + "---|" * HEAD.count(" |")]
    record = _record(out, f"{op}-{size}")
    explanations = explain_run(record, None if record["results"] else GPU).explanations if record else []
    by_impl = {e.subject.impl: e for e in explanations if e.subject.case["dtype"] == dtype}
    before: tuple[str, float] | None = None  # kind and time of the step before
    for step in steps_of(op):
        explanation = by_impl.get(step.impl)
        if explanation is None:
            reason = _why_not(record, step.impl, dtype)
            lines.append(f"| `{step.impl}` | {'– | ' * 8}{reason} |")
            continue
        lines.append(_row(step, explanation, _result(record, step.impl, dtype), before))
        time_us = explanation.subject.time_us
        if time_us and not step.wrong_on_purpose:
            before = explanation.subject.kind, time_us
    return "\n".join(lines)


def _row(step: Step, explanation: Explanation, result: DerivedResult | None, before: tuple[str, float] | None) -> str:
    subject, predicted_us = explanation.subject, predict_us(explanation)
    name = f"`{step.impl}`{', wrong on purpose' if step.wrong_on_purpose else ''}"
    code = ["–"] * 4
    if predicted_us is not None:
        kernel = slowest_kernel(explanation)
        reads, occupancy = reads_of_a_row(explanation), words.percent(kernel.occupancy or 0.0)
        code = [f"{kernel.widest_bytes} B", str(reads), occupancy, words.duration(predicted_us)]
    measured = ["–"] * 4
    limit = result["derived"]["limit"] if result else None
    if subject.time_us and limit and limit["gbps"]:
        gain = f"{before[1] / subject.time_us:.2f}×" if before and before[0] == subject.kind else "–"
        measured = [words.duration(subject.time_us), f"{limit['gbps']:.0f}", f"{limit['fraction']:.3f}", gain]
    return "| " + " | ".join([name, *code, *measured, headline(explanation)]) + " |"


def _result(record: DerivedRecord | None, impl: str, dtype: str) -> DerivedResult | None:
    results = record["results"] if record else []
    return next((r for r in results if r["impl"] == impl and r["case"]["dtype"] == dtype), None)


def _why_not(record: DerivedRecord | None, impl: str, dtype: str) -> str:
    """Why a step is not explained at a case."""
    if record is None:
        return "no record"
    result = _result(record, impl, dtype)
    if result is not None:
        return f"{result['derived']['status']}: {result['derived']['reason']}"
    codes = [c for c in record["code"] if c["impl"] == impl and c["case"] and c["case"]["dtype"] == dtype]
    return codes[0]["reason"] if codes else "not compiled"


def _check_lines(op: str, out: Path) -> list[str]:
    """What the battery found, a line for each step; nothing without a run on a GPU."""
    folder = out / f"{op}-check"
    if not folder.exists():
        return []
    batteries = {summary["impl"]: summary for summary in derive(load(folder))["batteries"]}
    lines = [_verdict(step, batteries.get(step.impl)) for step in steps_of(op)]
    return ["The battery (`klab check --quick`):\n\n" + "\n".join(lines)]


def _verdict(step: Step, battery: BatterySummary | None) -> str:
    if battery is None:
        return f"- `{step.impl}`: not tried"
    failures = battery["failures"]
    if not failures:
        return f"- `{step.impl}`: {words.count(battery['tried'], 'trial')}, all passed"
    first = failures[0]
    of = f"{len(failures)} of {words.count(battery['tried'], 'trial')} failed"
    return f"- `{step.impl}`: {of}, the first at {first['label']}: {first['reason']}"


def _provenance(out: Path) -> str:
    """Machine, date, versions and script of the measured figures."""
    records = [r for op, sizes in SIZES.items() for size in sizes if (r := _record(out, f"{op}-{size}"))]
    timed = [record for record in records if record["results"]]
    if not timed:
        return (
            "No step was timed yet: the columns from *measured* to *gain* are empty, and what `klab explain` says\n"
            "rests on a model. On a machine with an H200, `python benchmarks/ladder.py OUT` measures, and\n"
            "`python benchmarks/ladder.py OUT --page` writes the figures into this page."
        )
    environment, ceilings = timed[0]["environment"], timed[0]["machine"]["ceilings"]
    versions = ", ".join(f"{name} {version}" for name, version in environment["packages"].items() if version)
    lines = [
        f"- machine: {environment['gpus'][0]['name']}, driver {environment['gpus'][0]['driver']}",
        f"- date: {timed[0]['began'][:10]}",
        f"- versions: Python {environment['python']}, {versions}",
        f"- copy bandwidth: {ceilings['copy_gbps']:.0f} GB/s",
        "- script: `benchmarks/ladder.py`",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
