"""What the profiler knows of each way, in a worker of its own: a profiler slows what follows it."""

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

_LEAD_IN = 3  # the first calls a profiler sees are slow


def profile_group(task: Task, impls: Sequence[str], series: Sequence[KernelSeriesRequest], rounds: int) -> None:
    """Send what each way does inside a call, then the series of those timers that need a profiler."""
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
    for one in series:
        names = [name for name in one["impls"] if not task.op[name].mutates]
        if names:
            _time_in_profiler(task, names, one["series"], rounds)


def _profile(task: Task, name: str, inputs: Inputs) -> ProfiledCall:
    try:
        own = clone(inputs) if task.op[name].mutates else inputs
        call = FORWARD.prepare(task.op, task.op[name].fn, own, task.case)
        with torch.no_grad():
            for _ in range(2):
                call()
            return profile_call(call, task.device)
    except Exception as error:  # not counting is no fault of the way: it is right and timed
        task.noter(name, "profile")(f"could not be profiled: {explain(error)}")
        return ProfiledCall({})


def _send_traffic(task: Task, name: str, inputs: Inputs, enclosing: Sequence[Enclosing] | None) -> None:
    """The bytes each operator of the way moves; not of compiled code, which a dispatch mode would turn off."""
    if task.op[name].kind.name == "compile":
        return
    own = clone(inputs) if task.op[name].mutates else inputs
    try:
        with task.channel.running(name, "profile"):
            moved = traffic(FORWARD.prepare(task.op, task.op[name].fn, own, task.case))
    except Exception as error:  # knowing less is no fault of the way
        task.noter(name, "traffic")(f"the bytes its operators move are not known: {explain(error)}")
        return
    found = moved if enclosing is None else with_kernels(moved, enclosing)
    task.channel.send(TrafficCounted(impl=name, traffic=found))


def _time_in_profiler(task: Task, names: list[str], series: SeriesJson, rounds: int) -> None:
    """Kernel times in windows like those of the events timer, so that the cache is in the same state."""
    device, timed = task.device, pass_of(series["pass"])
    cold = series["cache"] == "cold"
    sets = InputSets([timed.inputs(task.op, task.case, task.seed, device)])
    sets.grow_to(1)
    order = random.Random(task.seed)
    works = {name: TimedImpl(name, sets, _preparing(timed, task, name), order=order) for name in names}
    assert series["timer"] is not None
    assert series["cache"] is not None
    timer, trial = (profiler_timer(device, series["timer"], cache) for cache in (series["cache"], WARM))
    counts = {}
    for name, work in works.items():  # whoever fails does so here, under its own name
        with torch.no_grad(), task.channel.running(name, "profile"):
            work.prepare_calls([0])[0]()
            alone_us = trial.window_times_us([functools.partial(work.prepare_calls, [0, 0])] * 3)
        counts[name] = calls_per_window(statistics.median(alone_us))
    most = max(2, int(torch.cuda.mem_get_info(device)[0] / 8 / max(1, sets.bytes)))
    sets.grow_to(min(most, max(counts.values())))

    def window(name: str) -> Callable[[], list[Call]]:
        work, count = works[name], min(counts[name], len(sets))
        return lambda: work.prepare_calls(work.draw(count + (not cold), distinct=cold))

    plan = _interleaved(names, rounds, random.Random(task.seed))
    with torch.no_grad(), task.channel.running(None, "profile"):
        samples = timer.window_times_us([window(name) for name in plan])
    found: dict[str, list[float]] = {}
    for name, us in zip(plan, samples, strict=True):
        found.setdefault(name, []).append(us)
    for number in range(_LEAD_IN, rounds + _LEAD_IN):
        one: dict[str, list[float] | float] = {name: [taken[number]] for name, taken in found.items()}
        task.channel.send(
            RoundTimed(
                pass_name=series["pass"],
                timer=series["timer"],
                cache=series["cache"],
                round=number - _LEAD_IN,
                samples_us=one,
                calls=counts,
            )
        )
    task.channel.send(
        SeriesTimed(
            pass_name=series["pass"],
            timer=series["timer"],
            cache=series["cache"],
            impls=list(found),
            looks=[],
            decided=False,
        )
    )


def _preparing(timed: Pass, task: Task, name: str) -> Callable[[Inputs], Call]:
    return lambda inputs: timed.prepare(task.op, task.op[name].fn, inputs, task.case)


def _interleaved(names: list[str], rounds: int, order: random.Random) -> list[str]:
    """Every way in every round, in random order; the first few rounds are not kept."""
    plan: list[str] = []
    for _ in range(rounds + _LEAD_IN):
        order.shuffle(names)
        plan += names
    return plan
