"""What the profiler knows of each way, in a worker of its own: a profiler slows what follows it."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import torch

from kernellab.blame import explain
from kernellab.case import Case
from kernellab.declare import Op
from kernellab.inputs import clone
from kernellab.passes import pass_of
from kernellab.running.channel import Channel
from kernellab.running.group import forget_compiled
from kernellab.timing.cache import Flush
from kernellab.timing.inside import inside
from kernellab.timing.kernel_times import kernel_times
from kernellab.timing.work import Call

_LEAD_IN = 3  # the first calls a profiler sees are slow


def profile_group(
    channel: Channel,
    op: Op,
    case: Case,
    device: torch.device,
    impls: Sequence[str],
    series: Sequence[dict[str, str]],
    seed: int,
    rounds: int,
) -> None:
    """Send what each way does inside a call, then the kernel times of those series that ask for them."""
    forget_compiled(op)
    forward = pass_of("forward")
    inputs = forward.inputs(op, case, seed, device)
    seen = []
    for name in impls:
        with channel.running(name, "profile"):
            try:
                own = clone(inputs) if op[name].mutates else inputs
                call = forward.prepare(op, op[name].fn, own, case)
                with torch.no_grad():
                    for _ in range(2):
                        call()
                    found = inside(call, device)
            except Exception as error:  # not counting is no fault of the way: it is right and timed
                guard = {"name": "profile", "detail": f"could not be profiled: {explain(error)}"}
                channel.send("guard", impl=name, guard=guard)
                channel.send("inside", impl=name, inside={})
                continue
        kernels = found.pop("kernels", None)
        if kernels is not None:
            channel.send("kernels", impl=name, kernels=kernels)
        channel.send("inside", impl=name, inside=found)
        seen.append(name)
    for one in series:
        _kernel_series(channel, op, case, device, seen, one, seed, rounds)


def _kernel_series(
    channel: Channel,
    op: Op,
    case: Case,
    device: torch.device,
    names: Sequence[str],
    series: dict[str, str],
    seed: int,
    rounds: int,
) -> None:
    timed = pass_of(series["pass"])
    inputs = timed.inputs(op, case, seed, device)
    flush = Flush(device) if series["cache"] == "cold" else None
    plan = _interleaved([name for name in names if not op[name].mutates], rounds, random.Random(seed))
    if not plan:
        return

    def prepared(name: str) -> Callable[[], Call]:
        return lambda: timed.prepare(op, op[name].fn, inputs, case)

    with torch.no_grad(), channel.running(None, "profile"):
        times = kernel_times([prepared(name) for name in plan], flush)
    found: dict[str, list[float]] = {}
    for name, us in zip(plan, times, strict=True):
        found.setdefault(name, []).append(us)
    for number in range(_LEAD_IN, rounds + _LEAD_IN):
        samples = {name: [times[number]] for name, times in found.items()}
        channel.send("round", **series, round=number - _LEAD_IN, samples_us=samples)
    channel.send("timed", **series, impls=list(found), looks=[], decided=False, steady=None, telemetry=None)


def _interleaved(names: list[str], rounds: int, order: random.Random) -> list[str]:
    """Every way in every round, in random order; the first few rounds are not kept."""
    plan: list[str] = []
    for _ in range(rounds + _LEAD_IN):
        order.shuffle(names)
        plan += names
    return plan
