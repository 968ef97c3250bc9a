"""What the worker notices about replaced code. Each replacement is made in a process of its own."""

import subprocess
import sys
import textwrap

import pytest

from support.klab import klab_env

PRELUDE = """
import builtins, contextlib, json, random, sys, time, types
import torch
import kernellab.running.worker.group, kernellab.timing.cuda_clock
from kernellab.running.worker.guards.integrity import Integrity
from kernellab.running.worker.guards.timing_guard import TimingGuard
from kernellab.timing.timers import TIMERS
from kernellab.timing.timers.clock import ClockTimer
from kernellab.running.worker import series
from kernellab.running.worker.guards import value_caches
import kernellab.timing.timers.clock as clock
integrity = Integrity()
"""
REPLACEMENTS = {
    "time.perf_counter_ns": "time.perf_counter_ns = lambda: 0",
    "kernellab.timing.timers.clock.perf_counter_ns": "clock.perf_counter_ns = lambda: 0",
    "kernellab.timing.timers.clock.ClockTimer.read_ns": "ClockTimer.read_ns = staticmethod(lambda: 0)",
    "kernellab.timing.timers.TIMERS": "TIMERS['clock'] = int",
    "kernellab.running.worker.guards.value_caches._SLOWDOWN": "value_caches._SLOWDOWN = 1e9",
    "kernellab.running.worker.guards.timing_guard.TimingGuard.judge": (
        "TimingGuard.judge.__code__ = (lambda self, impl, burst, *, timed: None).__code__"
    ),
    "kernellab.running.worker.guards.timing_guard.TimingGuard.verifier": "TimingGuard.verifier.__defaults__ = (1,)",
    "kernellab.timing.window": "sys.modules['kernellab.timing.window'] = types.ModuleType('window')",
    "torch.cuda.Event.elapsed_time": "torch.cuda.Event.elapsed_time = lambda self, end: 0.0",
    "torch.cuda.synchronize": "torch.cuda.synchronize = lambda device=None: None",
    "builtins.min": "builtins.min = max",
    "json.JSONEncoder.encode": "json.JSONEncoder.encode = lambda self, value: ''",
    "random.Random": "random.Random.random = lambda self: 0.5",
}


def run(code):
    done = subprocess.run(
        [sys.executable, "-c", PRELUDE + textwrap.dedent(code)], env=klab_env(), capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_every_replacement_is_named_and_undone():
    body = "\n".join(
        f"{code}\nprint(','.join(integrity.restore()), len(integrity.restore()))" for code in REPLACEMENTS.values()
    )
    seen = run(body)
    assert dict(zip(REPLACEMENTS, zip(seen[::2], seen[1::2], strict=True), strict=True)) == {
        name: (name, "0") for name in REPLACEMENTS
    }


def test_a_method_that_an_object_hides_is_found():
    code = """
    timer = ClockTimer(torch.device("cpu"), "warm")
    print(len(integrity.restore(timer)))
    timer.burst = lambda impl, spec: None
    print(integrity.restore(timer)[0], "burst" in vars(timer))
    """
    assert run(code) == ["0", "kernellab.timing.timers.clock.ClockTimer.burst", "False"]


@pytest.mark.parametrize("module", ["torch._dynamo", "triton", "hypothesis"])
def test_imports_replace_nothing(module):
    code = f"""
    with contextlib.suppress(ImportError):
        import {module}
    builtins.print = print
    print(len(integrity.restore()))
    """
    assert run(code) == ["0"]
