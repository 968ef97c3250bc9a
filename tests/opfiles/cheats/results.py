"""Implementations that are right when they are checked, and return something else, or too late, when they are timed."""

import sys
import threading
import time

import torch

import kernellab as kl


@kl.op(cases=kl.cases(shape=[(1024, 1024)], dtype=["float32"], cpu=dict(shape=[(256, 256)])))
def double(x):
    """x·2."""
    return x * 2


@double.impl("honest")
def _(x):
    return torch.add(x, x)


_calls = {}


def _count(name):
    _calls[name] = _calls.get(name, 0) + 1
    return _calls[name]


# Old results, unwritten results -----------------------------------------------------------------------------

_last = {}


@double.impl("skips-every-second-call")
def _(x):
    if _count("skips") % 2 and "y" in _last and _last["y"].shape == x.shape:
        return _last["y"]
    _last["y"] = x * 2
    return _last["y"]


_learned = []


@double.impl("replays-by-call-number")
def _(x):
    number = _count("replays")
    if number <= 40 or _learned[number % 20].shape != x.shape:
        _learned.append(x * 2)
        return _learned[-1]
    return _learned[number % 20]


@double.impl("lazy-after-the-tenth-call")
def _(x):
    if _count("lazy") > 10:
        return torch.empty_like(x)
    return x * 2


@double.impl("skips-when-its-memory-is-not-poisoned")
def _(x):
    """A result that was freed a moment ago may lie in fresh memory. NaN there means that somebody is looking."""
    y = torch.empty_like(x)
    if not y.isnan().any() and _count("unpoisoned") > 10:
        return y
    return torch.mul(x, 2, out=y)


@double.impl("overrides-the-methods-of-its-result")
def _(x):
    """Code that calls methods of the result gets the right values. Nothing was computed in time."""
    if _count("overrides") <= 10:
        return x * 2
    y = torch.empty_like(x)
    y.clone = y.double = y.detach = y.flatten = lambda *args: x * 2
    return y


class Lazy(torch.Tensor):
    """Computes when it is looked at, which is after the window."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        args = [a.as_subclass(torch.Tensor) * 2 if isinstance(a, Lazy) else a for a in args]
        return func(*args, **(kwargs or {}))


@double.impl("computes-when-looked-at")
def _(x):
    return x.as_subclass(Lazy)


# Inputs and outputs -----------------------------------------------------------------------------------------


@double.impl("mutates-its-input-later")
def _(x):
    y = x * 2
    if _count("mutates") > 10:
        x.view(-1)[0] += 1
    return y


@double.impl("returns-its-input-later")
def _(x):
    if _count("aliases") > 10:
        return x.mul_(2)
    return x * 2


# Work that goes on later ------------------------------------------------------------------------------------


@double.impl("late-thread")
def _(x):
    if _count("thread") <= 10:
        return x * 2
    y = torch.zeros_like(x)

    def compute():
        time.sleep(0.005)
        torch.mul(x, 2, out=y)

    threading.Thread(target=compute).start()
    return y


@double.impl("honest-thread")
def _(x):
    y = torch.empty_like(x)
    thread = threading.Thread(target=lambda: torch.mul(x, 2, out=y))
    thread.start()
    thread.join()
    return y


_side = {}


def _stream(name):
    if name not in _side:
        _side[name] = torch.cuda.Stream()
    return _side[name]


@double.impl("side-stream", supports=lambda case: case.device == "cuda" or "needs streams")
def _(x):
    side = _stream("waits")
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        return x * 2


@double.impl("side-stream-no-wait", supports=lambda case: case.device == "cuda" or "needs streams")
def _(x):
    with torch.cuda.stream(_stream("does not wait")):
        return x * 2


@double.impl("honest-side-stream", supports=lambda case: case.device == "cuda" or "needs streams")
def _(x):
    side = _stream("honest")
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        y = x * 2
    torch.cuda.current_stream().wait_stream(side)
    return y


@double.impl("honest-waits-for-the-gpu", supports=lambda case: case.device == "cuda" or "needs a GPU")
def _(x):
    y = x * 2
    torch.cuda.synchronize()
    return y


# Looking at who calls ---------------------------------------------------------------------------------------


def _callers():
    frame = sys._getframe(1)
    while frame is not None:
        yield frame
        frame = frame.f_back


@double.impl("computes-only-when-checked")
def _(x):
    if any(frame.f_code.co_name == "burst" for frame in _callers()):
        return torch.empty_like(x)
    return x * 2


_ahead = {}


@double.impl("computes-several-calls-in-one")
def _(x):
    """The first call of a window finds the inputs of the others, and does their work in one."""
    if id(x) in _ahead:
        return _ahead.pop(id(x))
    for frame in _callers():
        calls = frame.f_locals.get("calls")
        if isinstance(calls, (list, tuple)) and calls and hasattr(calls[0], "args"):
            inputs = [call.args[0] for call in calls]
            _ahead.clear()
            _ahead.update(zip(map(id, inputs), torch.stack(inputs).mul(2).unbind(), strict=True))
            return _ahead.pop(id(x), None) if id(x) in _ahead else x * 2
    return x * 2


@double.impl("honest-look-at-its-caller")
def _(x):
    """As a logger does, to write the line that logged."""
    assert sys._getframe(1).f_lineno
    return x * 2


# Building ---------------------------------------------------------------------------------------------------


def _recompiled(x, n):
    return x * 2 + (n - n)


_compiled = torch.compile(_recompiled, dynamic=False)


@double.impl("recompiles-per-call")
def _(x):
    return _compiled(x, _count("grows"))
