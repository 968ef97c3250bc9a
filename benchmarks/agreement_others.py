"""The timers that benchmarks/agreement.py compares kernellab with, in a process of their own on a GPU.

Reads implementations and cases as JSON from standard input, writes microseconds as JSON to standard output.
"""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Callable
from time import perf_counter_ns

import torch
from triton.testing import do_bench

import kernellab as kl
from kernellab.declaration.case import Case
from kernellab.declaration.inputs import call, make_inputs
from kernellab.timing.cache import CacheFlush
from kernellab.timing.hold import Hold

TRIALS = 200
DEVICE = torch.device("cuda", 0)


def main() -> None:
    request = json.load(sys.stdin)
    flush, hold = CacheFlush(DEVICE), Hold(DEVICE)
    with torch.no_grad():
        times = {
            "large": [{**at, "do_bench": _do_bench(_call(**at))} for at in request["large"]],
            "small": [{**at, **_small(_call(**at), flush, hold)} for at in request["small"]],
            "null_window": _held(lambda: None, flush, hold),
            "launch_queue": _launch_queue(hold),
        }
    json.dump(times, sys.stdout)


def _call(op: str, impl: str, case: dict) -> Callable:
    """A call on the inputs of kernellab's own runs, which have the same seed."""
    torch.cuda.empty_cache()
    loaded = getattr(kl.ops, op)
    parsed_case = Case.from_json(case)
    inputs = make_inputs(loaded, parsed_case, seed=0, device=DEVICE)
    return lambda: call(loaded, loaded[impl].fn, inputs, parsed_case)


def _small(run: Callable, flush: CacheFlush, hold: Hold) -> dict[str, float]:
    return {
        "held, one call": _held(run, flush, hold),
        "plain events after a flush": _plain(run, flush),
        "plain events": _plain(run, lambda: None),
        "do_bench": _do_bench(run),
    }


def _do_bench(run: Callable) -> float:
    return 1e3 * do_bench(run, return_mode="median")


def _plain(run: Callable, before: Callable) -> float:
    """Events around a call, as most people write them."""
    return _median(lambda start, end: (before(), start.record(), run(), end.record()))


def _held(run: Callable, flush: CacheFlush, hold: Hold) -> float:
    """One call in a window, all of which is queued before any of it runs."""

    def window(start: torch.cuda.Event, end: torch.cuda.Event) -> None:
        with hold():
            flush()
            start.record()
            run()
            end.record()

    return _median(window)


def _median(window: Callable) -> float:
    times = []
    for _ in range(TRIALS):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        window(start, end)
        torch.cuda.synchronize()
        times.append(1e3 * start.elapsed_time(end))
    return statistics.median(times[TRIALS // 10 :])  # the first ones warm up


def _launch_queue(hold: Hold) -> int:
    """How many launches a stream that is held back can queue before the host has to wait."""
    x = torch.zeros(1, device=DEVICE)
    x.add_(1)
    torch.cuda.synchronize()
    queued, waited = 0, False
    with hold():
        while not waited and queued < 5000:
            began = perf_counter_ns()
            x.add_(1)
            waited = perf_counter_ns() - began > 5e6  # a launch takes some µs; the hold gives up after 20 ms
            queued += not waited
    torch.cuda.synchronize()
    return queued


if __name__ == "__main__":
    main()
