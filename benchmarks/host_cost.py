"""How much host time does an eager call of kernellab.functional take, beside PyTorch's own op?

    python benchmarks/host_cost.py [--page docs/results/host-cost-h200.md] [--json OUT.json]

Every function is called on 1024 elements: forward without a graph, forward with one, and backward. Where PyTorch has no
such op, its gelu stands beside it. Both are timed by turns, in bursts that end before the GPU is waited for. The
launcher is built first. The limit is 1.3 times PyTorch's time in the same run.
"""

from __future__ import annotations

import argparse
import datetime
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))

import torch
import torch.nn.functional as F  # noqa: N812  its usual name

import kernellab as kl
from kernellab.launcher.repetition import LAUNCHER
from kernellab.machine.environment import cpu, gpus

K = kl.functional
LIMIT = 1.3
PASSES = ("forward", "forward with a graph", "backward")
ROWS, COLUMNS = 8, 128
WARM_UP = 8  # calls until all is recorded


class Subject:
    """A function and its arguments. `theirs`: PyTorch's op with its arguments, None where it has none."""

    def __init__(self, name: str, ours: Callable, theirs: Callable | None, *tensors: torch.Tensor) -> None:
        self.name, self.ours, self.theirs, self.tensors = name, ours, theirs, tensors


def subjects(device: str) -> list[Subject]:
    def make(*shape: int) -> torch.Tensor:
        return torch.randn(shape, device=device, dtype=torch.bfloat16)

    x, y, weight, bias = make(ROWS, COLUMNS), make(ROWS, COLUMNS), make(COLUMNS), make(COLUMNS)
    target = torch.arange(ROWS, device=device)
    q, cos, sin = make(1, 2, 8, 64), make(8, 32), make(8, 32)
    shape = (COLUMNS,)
    return [
        Subject("gelu", K.gelu, F.gelu, x),
        Subject("silu", K.silu, F.silu, x),
        Subject("softmax", lambda x: K.softmax(x, -1), lambda x: F.softmax(x, -1), x),
        Subject("log_softmax", lambda x: K.log_softmax(x, -1), lambda x: F.log_softmax(x, -1), x),
        Subject(
            "layer_norm",
            lambda x, w, b: K.layer_norm(x, shape, w, b),
            lambda x, w, b: F.layer_norm(x, shape, w, b),
            *(x, weight, bias),
        ),
        Subject(
            "rms_norm",
            lambda x, w: K.rms_norm(x, shape, w, 1e-6),
            lambda x, w: F.rms_norm(x, shape, w, 1e-6),
            x,
            weight,
        ),
        Subject("cross_entropy", lambda x: K.cross_entropy(x, target), lambda x: F.cross_entropy(x, target), x),
        Subject("swiglu", K.swiglu, None, x, y),
        Subject("geglu", K.geglu, None, x, y),
        Subject("add_rms_norm", lambda x, y, w: K.add_rms_norm(x, y, shape, w, 1e-6), None, x, y, weight),
        Subject("rope", lambda q, k: K.rope(q, k, cos, sin), None, q, q.clone()),
    ]


def caller(function: Callable, tensors: tuple[torch.Tensor, ...], pass_: str) -> Callable[[], object]:
    """What is timed."""
    if pass_ == "forward":
        return lambda: function(*tensors)
    inputs = [x.detach().requires_grad_() for x in tensors]
    if pass_ == "forward with a graph":
        return lambda: function(*inputs)
    # Each backward pass has a graph of its own until both passes are recorded.
    for _ in range(WARM_UP):
        results = function(*inputs)
        results = results if isinstance(results, tuple) else (results,)
        upstream = [torch.ones_like(y) for y in results]
        torch.autograd.grad(results, inputs, upstream, retain_graph=True)
    return lambda: torch.autograd.grad(results, inputs, upstream, retain_graph=True)


def time_by_turns(functions: list[Callable[[], object]], rounds: int, calls: int) -> list[list[float]]:
    """Microseconds of a call of each function in every round."""
    synchronize = torch.cuda.synchronize if torch.cuda.is_available() else lambda: None
    for function in functions:
        for _ in range(WARM_UP):
            function()
    samples: list[list[float]] = [[] for _ in functions]
    for _ in range(rounds):
        for function, times in zip(functions, samples, strict=True):
            synchronize()
            begin = time.perf_counter_ns()
            for _ in range(calls):
                function()
            times.append((time.perf_counter_ns() - begin) / calls / 1000)
    synchronize()
    return samples


def measure(device: str, rounds: int, calls: int) -> list[dict]:
    results = []
    gelu = torch.randn(ROWS, COLUMNS, device=device, dtype=torch.bfloat16)
    for subject in subjects(device):
        for pass_ in PASSES:
            theirs = (F.gelu, (gelu,)) if subject.theirs is None else (subject.theirs, subject.tensors)
            functions = [caller(subject.ours, subject.tensors, pass_), caller(*theirs, pass_)]
            ours, theirs_us = time_by_turns(functions, rounds, calls)
            ratios = [a / b for a, b in zip(ours, theirs_us, strict=True)]
            results.append(
                {
                    "function": subject.name,
                    "pass": pass_,
                    "beside": "gelu" if subject.theirs is None else subject.name,
                    "ours_us": quantiles(ours),
                    "theirs_us": quantiles(theirs_us),
                    "ratio": quantiles(ratios),
                }
            )
    return results


def quantiles(samples: list[float]) -> list[float]:
    """The 10 % quantile, the median and the 90 % quantile."""
    ordered = sorted(samples)
    return [ordered[len(ordered) // 10], statistics.median(ordered), ordered[-1 - len(ordered) // 10]]


def add_times_without_launcher(results: list[dict], device: str, rounds: int, calls: int) -> None:
    LAUNCHER.disconnect()
    by_place = {(result["function"], result["pass"]): result for result in results}
    for subject in subjects(device):
        for pass_ in PASSES:
            (samples,) = time_by_turns([caller(subject.ours, subject.tensors, pass_)], rounds, calls)
            by_place[subject.name, pass_]["without_us"] = statistics.median(samples)


def table(results: list[dict]) -> list[str]:
    """In markdown; what misses the limit is bold."""
    lines = [
        "| function | pass | µs | PyTorch's | µs | ratio | 10 to 90 % | without the launcher, µs |",
        "|---|---|---:|---|---:|---:|---|---:|",
    ]
    for r in results:
        low, ratio, high = r["ratio"]
        shown = f"**{ratio:.2f}**" if ratio > LIMIT else f"{ratio:.2f}"
        without = f"{r['without_us']:.1f}" if "without_us" in r else ""
        times = f"{r['ours_us'][1]:.1f} | {r['beside']} | {r['theirs_us'][1]:.1f}"
        lines.append(f"| `{r['function']}` | {r['pass']} | {times} | {shown} | {low:.2f} to {high:.2f} | {without} |")
    return lines


def verdict(results: list[dict]) -> str:
    missed = [r for r in results if r["ratio"][1] > LIMIT]
    kept = f"{len(results) - len(missed)} of {len(results)} figures are within {LIMIT} times PyTorch's host time"
    return kept + (": the others are bold." if missed else ".")


def page(results: list[dict], device: str) -> str:
    machine = gpus()[0]["name"] if device == "cuda" else "CPU"
    where = f"{machine}, driver {gpus()[0]['driver']}, host {cpu()['name']}" if device == "cuda" else cpu()["name"]
    versions = f"torch {torch.__version__}, Python {sys.version.split()[0]}"
    return "\n".join(
        [
            f"# Host time of eager calls on {machine}",
            "",
            f"- machine: {where}",
            f"- date: {datetime.date.today()}",
            f"- versions: {versions}",
            "- script: `benchmarks/host_cost.py`",
            "",
            "Host time of a call on 1024 elements in bfloat16: medians over rounds that alternate with PyTorch's own",
            "op, or with its `gelu` where it has none. Backward is a call of `torch.autograd.grad`. The last column is",
            "the same call without [the launcher](../models.md#cost-of-a-call).",
            "",
            verdict(results),
            "",
            *table(results),
            "",
        ]
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--page", type=Path, help="write the page of results to this file")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--rounds", type=int, default=41)
    parser.add_argument("--calls", type=int, default=50)
    args = parser.parse_args()
    if args.device == "cuda":
        began = time.monotonic()
        if not LAUNCHER.wait_until_built(240):
            sys.exit("the launcher is not there: klab doctor says why")
        print(f"launcher ready after {time.monotonic() - began:.1f} s")
    results = measure(args.device, args.rounds, args.calls)
    if args.device == "cuda":
        add_times_without_launcher(results, args.device, args.rounds // 4 + 1, args.calls // 2 + 1)
    if args.json:
        args.json.write_text(json.dumps(results, indent=1))
    if args.page:
        args.page.write_text(page(results, args.device))
    print("\n".join([verdict(results), "", *table(results)]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
