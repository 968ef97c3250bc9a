"""What benchmarks/agreement.py holds kernellab's times against, measured in a process of its own on a GPU.

Reads the ways and cases as JSON from standard input, writes microseconds as JSON to standard output.
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
    asked = json.load(sys.stdin)
    flush, hold = CacheFlush(DEVICE), Hold(DEVICE)
    with torch.no_grad():
        found = {
            "large": [{**way, "do_bench": _do_bench(_call(**way))} for way in asked["large"]],
            "small": [{**way, **_small(_call(**way), flush, hold)} for way in asked["small"]],
            "null_window": _held(lambda: None, flush, hold),
            "launch_queue": _launch_queue(hold),
        }
    json.dump(found, sys.stdout)


def _call(op: str, impl: str, case: dict) -> Callable:
    """The same inputs as in kernellab's own runs: one seed."""
    torch.cuda.empty_cache()
    loaded = getattr(kl.ops, op)
    at = Case.from_json(case)
    inputs = make_inputs(loaded, at, seed=0, device=DEVICE)
    return lambda: call(loaded, loaded[impl].fn, inputs, at)


def _small(way: Callable, flush: CacheFlush, hold: Hold) -> dict[str, float]:
    return {
        "held, one call": _held(way, flush, hold),
        "plain events after a flush": _plain(way, flush),
        "plain events": _plain(way, lambda: None),
        "do_bench": _do_bench(way),
    }


def _do_bench(way: Callable) -> float:
    return 1e3 * do_bench(way, return_mode="median")


def _plain(way: Callable, before: Callable) -> float:
    """Events around a call, as most people write it."""
    return _median(lambda start, end: (before(), start.record(), way(), end.record()))


def _held(way: Callable, flush: CacheFlush, hold: Hold) -> float:
    """One call in a window that was queued as a whole before any of it ran."""

    def window(start: torch.cuda.Event, end: torch.cuda.Event) -> None:
        with hold():
            flush()
            start.record()
            way()
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
    """How many launches fit behind a stream that is held back before the host has to wait."""
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
