"""Implementations that change what measures and judges them, or look for what they are compared with."""

import gc
import json
import sys
import time

import torch

import kernellab as kl


@kl.op(cases=kl.cases(shape=[(1024, 1024)], dtype=["float32"]))
def double(x):
    """x·2."""
    return x * 2


@double.impl("honest")
def _(x):
    return torch.add(x, x)


@double.impl("honest-collects-garbage")
def _(x):
    if _count("collects") % 200 == 0:
        gc.collect()
    assert time.perf_counter_ns()
    return x * 2


_calls = {}


def _count(name):
    _calls[name] = _calls.get(name, 0) + 1
    return _calls[name]


def _frames():
    frame = sys._getframe(1)
    while frame is not None:
        yield frame
        frame = frame.f_back


# Functions --------------------------------------------------------------------------------------------------


@double.impl("patches-torch")
def _(x):
    if _count("patches") > 10:
        torch.add = lambda a, b: torch.zeros_like(a)
    return x * 2


@double.impl("replaces-the-clock")
def _(x):
    if _count("clock") > 10:
        import kernellab.timing.timers.clock as clock

        now = time.perf_counter_ns
        clock.ClockTimer.read_ns = staticmethod(lambda: now() // 2)
    return x * 2


@double.impl("replaces-the-events")
def _(x):
    if _count("events") > 10:
        torch.cuda.Event.elapsed_time = lambda self, end: 0.001
    return x * 2


@double.impl("replaces-the-code-of-the-guard")
def _(x):
    if _count("guard") > 10:
        from kernellab.running.worker.guards.timing_guard import TimingGuard

        TimingGuard.judge.__code__ = (lambda self, impl, burst, *, timed: None).__code__
        return torch.empty_like(x)
    return x * 2


@double.impl("raises-a-limit-of-the-guard")
def _(x):
    if _count("limit") > 10:
        import kernellab.running.worker.guards.value_caches as value_caches

        value_caches._SLOWDOWN = 1e9
    return x * 2


@double.impl("hides-a-method-of-an-object")
def _(x):
    if _count("method") > 10:
        for frame in _frames():
            timer = frame.f_locals.get("self")
            if type(timer).__name__ in ("ClockTimer", "EventTimer") and "burst" not in vars(timer):
                burst = timer.burst

                def shorter(impl, spec, burst=burst):
                    measured = burst(impl, spec)
                    measured.samples_us = [us / 2 for us in measured.samples_us]
                    return measured

                timer.burst = shorter
    return x * 2


@double.impl("forges-what-is-sent")
def _(x):
    if _count("sent") > 10:
        json.JSONEncoder.encode = _forge
    return x * 2


_encode = json.JSONEncoder.encode


def _forge(self, value):
    for name in value.get("samples_us", {}) if isinstance(value, dict) else ():
        value["samples_us"][name] = [us / 2 for us in value["samples_us"][name]]
    return _encode(self, value)


# The description of the measurement -------------------------------------------------------------------------


@double.impl("changes-the-number-of-calls")
def _(x):
    if _count("spec") > 10:
        for frame in _frames():
            spec = frame.f_locals.get("spec")
            if type(spec).__name__ == "BurstSpec":
                object.__setattr__(spec, "calls", 1000)
    return x * 2


@double.impl("empties-the-list-of-calls")
def _(x):
    """It cannot: the calls of a window are no list. Then it does what it would do had it been the only call."""
    for frame in _frames() if _count("calls") > 10 else ():
        calls = frame.f_locals.get("calls")
        if isinstance(calls, list):
            calls.clear()
        elif isinstance(calls, tuple) and len(calls) > 1 and x is not getattr(calls[0], "args", (x,))[0]:
            return torch.empty_like(x)
    return x * 2


@double.impl("forgets-the-samples")
def _(x):
    """Forgets what was sampled of its results, and of all others."""
    if _count("samples") <= 10:
        return x * 2
    for frame in _frames():
        guard = getattr(frame.f_locals.get("self"), "guard", None)
        if guard is not None:
            guard.samples.clear()
    return torch.empty_like(x)


# The oracle -------------------------------------------------------------------------------------------------


def _tensors():
    return [t for t in gc.get_objects() if type(t) is torch.Tensor]


@double.impl("takes-the-oracle")
def _(x):
    for t in _tensors():
        if t.dtype == torch.float64 and t.shape == x.shape:
            return t.to(x.dtype)
    return torch.empty_like(x)


@double.impl("takes-the-result-of-its-peer")
def _(x):
    mine = {x.data_ptr()}
    for t in _tensors():
        if t.dtype == x.dtype and t.shape == x.shape and t.data_ptr() not in mine and not torch.equal(t, x):
            return t.clone()
    return torch.empty_like(x)


@double.impl("takes-the-oracle-from-frames")
def _(x):
    for frame in _frames():
        for value in list(frame.f_locals.values()):
            oracle = getattr(value, "oracle", None)
            if isinstance(oracle, tuple) and oracle and oracle[0].shape == x.shape:
                return oracle[0].to(x.dtype)
    return torch.empty_like(x)


@double.impl("asks-for-the-key")
def _(x):
    """Asks the parent for the key of the oracle, as kernellab does after the call."""
    from kernellab.running.worker.channel import ParentKeeper

    for keeper in (o for o in gc.get_objects() if isinstance(o, ParentKeeper)):
        for ticket in range(1, 2000):
            if keeper.release(ticket) is not None:
                return x * 2
    return x * 2


@double.impl("fills-all-tensors-with-nan")
def _(x):
    """A comparison in which NaN fits everything would pass."""
    for t in _tensors():
        if t.is_floating_point() and t is not x and t.data_ptr() != x.data_ptr() and t.numel() > 1000:
            t.detach().fill_(torch.nan)
    return torch.full_like(x, torch.nan)


@double.impl("copies-where-it-was-compared-before")
def _(x):
    """Computes only the places at which its earlier results were sampled."""
    if _count("places") <= 10:
        return x * 2
    y = torch.empty_like(x)
    for t in _tensors():
        if t.dtype == torch.int64 and t.dim() == 1 and 0 < t.numel() <= 4096 and int(t.max()) < x.numel():
            places = t.clamp_min(0)
            y.view(-1)[places] = x.reshape(-1)[places] * 2
    return y


@double.impl("sets-a-trace-function")
def _(x):
    """Returns what it has not computed, and computes it when the clock has been read."""
    if _count("trace") <= 10:
        return x * 2
    y = torch.empty_like(x)

    def compute(frame, event, arg):
        if "end" in frame.f_locals or "samples_us" in frame.f_locals:
            torch.mul(x, 2, out=y)
        return compute

    sys.settrace(compute)
    for frame in _frames():
        frame.f_trace = compute
    return y


class _Shorter:
    """A timer whose times are a third of the true ones."""

    def __init__(self, timer):
        self._timer = timer

    def __getattr__(self, name):
        return getattr(self._timer, name)

    def burst(self, impl, spec):
        burst = self._timer.burst(impl, spec)
        burst.samples_us = [us / 3 for us in burst.samples_us]
        return burst


@double.impl("wraps-the-timer")
def _(x):
    for frame in _frames() if _count("wraps") > 10 else ():
        rounds = frame.f_locals.get("self")
        if type(rounds).__name__ == "Rounds" and not isinstance(rounds.timer, _Shorter):
            rounds.timer = _Shorter(rounds.timer)
    return x * 2
