"""Profiles calls of each implementation, in a worker of its own: a profiler slows everything that runs after it."""

from __future__ import annotations

import functools
import random
import statistics
from collections.abc import Callable, Sequence

import torch

from kernellab.activity.call import Enclosing, ProfiledCall, profile_call, remarks_on
from kernellab.activity.traffic import traffic, with_kernels
from kernellab.base.user_code import explain
from kernellab.checking.compiled_impls import reset_compiled
from kernellab.declaration.inputs import Inputs, clone
from kernellab.declaration.passes import FORWARD, Pass, pass_of
from kernellab.record.result_events import (
    CallActivitySeen,
    KernelsSeen,
    RoundTimed,
    SeriesTimed,
    TrafficCounted,
)
from kernellab.record.schema import SeriesJson
from kernellab.running.protocol.commands import KernelSeriesRequest
from kernellab.running.worker.task import Task
from kernellab.timing.input_sets import InputSets
from kernellab.timing.rounds import calls_per_window
from kernellab.timing.timed_impl import Call, TimedImpl
from kernellab.timing.timer import WARM
from kernellab.timing.timers import profiler_timer

_LEAD_ROUNDS = 3  # not kept: the first calls under a profiler are slow


def profile_group(task: Task, impls: Sequence[str], series: Sequence[KernelSeriesRequest], rounds: int) -> None:
    """Send what each implementation does inside a call, then the series of the timers that need a profiler."""
    reset_compiled(task.op)
    inputs = FORWARD.inputs(task.op, task.case, task.seed, task.device)
    for name in impls:
        with task.channel.running(name, "profile"):
            profiled = _profile(task, name, inputs)
        if profiled.kernels is not None:
            task.channel.send(KernelsSeen(impl=name, kernels=profiled.kernels))
        task.channel.send(CallActivitySeen(impl=name, inside=profiled.activity))
        _send_traffic(task, name, inputs, profiled.enclosing)
        for remark in remarks_on(profiled.activity):
            task.noter(name, "inside")(f"inside the timed call it {remark}")
    for request in series:
        names = [name for name in request["impls"] if not task.op[name].changes_inputs]
        if names:
            _time_in_profiler(task, names, request["series"], rounds)


def _profile(task: Task, name: str, inputs: Inputs) -> ProfiledCall:
    try:
        own = clone(inputs) if task.op[name].changes_inputs else inputs
        call = FORWARD.prepare(task.op, task.op[name].fn, own, task.case)
        with torch.no_grad():
            for _ in range(2):
                call()
            return profile_call(call, task.device)
    except Exception as error:  # a note, not a failure: the implementation is right and has been timed
        task.noter(name, "profile")(f"could not be profiled: {explain(error)}")
        return ProfiledCall({})


def _send_traffic(task: Task, name: str, inputs: Inputs, enclosing: Sequence[Enclosing] | None) -> None:
    """Send the bytes each operator moves. Not for compiled code: counting needs a dispatch mode, which disables
    torch.compile."""
    if task.op[name].kind.name == "compile":
        return
    own = clone(inputs) if task.op[name].changes_inputs else inputs
    try:
        with task.channel.running(name, "profile"):
            moved = traffic(FORWARD.prepare(task.op, task.op[name].fn, own, task.case))
    except Exception as error:  # a note, not a failure
        task.noter(name, "traffic")(f"the bytes that its operators move could not be counted: {explain(error)}")
        return
    counted = moved if enclosing is None else with_kernels(moved, enclosing)
    task.channel.send(TrafficCounted(impl=name, traffic=counted))


def _time_in_profiler(task: Task, names: list[str], series: SeriesJson, rounds: int) -> None:
    """Time kernels in windows like those of the events timer, so that the cache is in the same state."""
    device, pass_ = task.device, pass_of(series["pass"])
    cold = series["cache"] == "cold"
    sets = InputSets([pass_.inputs(task.op, task.case, task.seed, device)])
    sets.grow_to(1)
    order = random.Random(task.seed)
    impls = {name: TimedImpl(name, sets, _call_preparer(pass_, task, name), order=order) for name in names}
    assert series["timer"] is not None
    assert series["cache"] is not None
    timer, warm_timer = (profiler_timer(device, series["timer"], cache) for cache in (series["cache"], WARM))
    counts = {}
    for name, impl in impls.items():  # an implementation that fails does so here, where it is named as the culprit
        with torch.no_grad(), task.channel.running(name, "profile"):
            impl.prepare_calls([0])[0]()
            alone_us = warm_timer.window_times_us([functools.partial(impl.prepare_calls, [0, 0])] * 3)
        counts[name] = calls_per_window(statistics.median(alone_us))
    most_sets = max(2, int(torch.cuda.mem_get_info(device)[0] / 8 / max(1, sets.bytes)))
    sets.grow_to(min(most_sets, max(counts.values())))

    def window(name: str) -> Callable[[], list[Call]]:
        impl, count = impls[name], min(counts[name], len(sets))
        return lambda: impl.prepare_calls(impl.draw(count + (not cold), distinct=cold))

    schedule = _interleave(names, rounds, random.Random(task.seed))
    with torch.no_grad(), task.channel.running(None, "profile"):
        window_us = timer.window_times_us([window(name) for name in schedule])
    samples_us: dict[str, list[float]] = {}
    for name, us in zip(schedule, window_us, strict=True):
        samples_us.setdefault(name, []).append(us)
    for number in range(_LEAD_ROUNDS, rounds + _LEAD_ROUNDS):
        task.channel.send(
            RoundTimed(
                pass_name=series["pass"],
                timer=series["timer"],
                cache=series["cache"],
                round=number - _LEAD_ROUNDS,
                samples_us={name: [times_us[number]] for name, times_us in samples_us.items()},
                calls=counts,
            )
        )
    task.channel.send(
        SeriesTimed(
            pass_name=series["pass"],
            timer=series["timer"],
            cache=series["cache"],
            impls=list(samples_us),
            looks=[],
            decided=False,
        )
    )


def _call_preparer(pass_: Pass, task: Task, name: str) -> Callable[[Inputs], Call]:
    return lambda inputs: pass_.prepare(task.op, task.op[name].fn, inputs, task.case)


def _interleave(names: list[str], rounds: int, order: random.Random) -> list[str]:
    """The implementation of each window: all of them in every round, in random order, after a few lead-in rounds."""
    schedule: list[str] = []
    for _ in range(rounds + _LEAD_ROUNDS):
        order.shuffle(names)
        schedule += names
    return schedule
