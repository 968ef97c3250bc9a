"""Finds implementations that remember results by the values of their inputs.

Such an implementation is right and fast on inputs it has seen, which is all that a benchmark shows it. One that looks
at a few values returns an old result when other values change. One that looks at all values is slow on new inputs.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from time import process_time_ns  # bound here: an implementation may replace time.process_time_ns

import torch

from kernellab.accuracy.outputs import Outputs, Wrong, as_tensors
from kernellab.accuracy.spot_check import ResultForm
from kernellab.declaration.inputs import Inputs, are_exchangeable
from kernellab.declaration.op import Op
from kernellab.declaration.passes import is_upstream
from kernellab.running.worker.guards.timing_guard import fill_missing_gradients
from kernellab.timing.timed_impl import TimedImpl
from kernellab.timing.timer import BurstSpec, BurstTimer

_CHANGED_SHARES = (0.0, 1e-3, 0.03, 0.3)  # of the elements; at least one. A cache looks at few or at many values.
_CLEAR_ROUNDINGS = 64.0  # a result that should move by more than this must move
_FAR_SHARE = 0.1  # of a result that is further off than this
_NEW_INPUT_BURSTS = 5  # on inputs that the implementation has never been called with, each after one on known inputs
_SLOWDOWN = 1.5  # slower than this factor on new inputs: the results are cached
_CPU_CALLS = 8
_SEED_BITS = 48

Call = Callable[[Inputs], object]


def refuse_old_results(
    op: Op, impl: TimedImpl, form: ResultForm, reference: Call, make_inputs: Callable[[int], Inputs]
) -> None:
    """Raise Wrong if results stay the same bits where a few changed input values must change them, or are unrelated.

    `reference` computes the right results. It is called after the implementation, which could read them otherwise.
    """
    if impl.restores_inputs:
        return
    sets = impl.sets
    base = sets.contents[sets.content_of(0)]
    contents = [base, *_changed(op, base, make_inputs)]
    results = _call_on_late_inputs(op, impl, contents)
    sets.swap()
    expected = [as_tensors(fill_missing_gradients(op, reference(content), content)) for content in contents]
    for outputs, right in zip(results, expected, strict=True):
        if right is not expected[0] and _is_old(outputs, results[0], right, expected[0], form.max_errors):
            raise Wrong("returns an old result where some values of its inputs have changed: it caches results")
        if _is_unrelated(outputs, right, form.max_errors):
            raise Wrong("its result does not belong to its inputs")


def _call_on_late_inputs(op: Op, impl: TimedImpl, contents: list[Inputs]) -> list[Outputs]:
    """The results for these contents, from calls that are prepared like those of a window.

    A content is written right before its call: an implementation that looks ahead, and computes the results of several
    calls in one, computes them from the first content. Where preparing a call reads its inputs, as the forward pass
    before a backward pass does, each call is prepared when its content is there.
    """
    sets, ahead = impl.sets, not (impl.prepare_runs_impl or impl.copies_inputs)
    numbers = [number % len(sets) for number in range(len(contents))]
    for number in set(numbers):
        sets.overwrite(number, contents[0])
    calls = tuple(impl.prepare_calls(numbers)) if ahead else ()
    results = []
    for index, (number, content) in enumerate(zip(numbers, contents, strict=True)):
        sets.overwrite(number, content)
        call = calls[index] if ahead else impl.prepare_calls([number])[0]
        outputs = as_tensors(fill_missing_gradients(op, call(), impl.sets[number]))
        results.append(tuple(t.clone() for t in outputs))
    return results


def _changed(op: Op, base: Inputs, make_inputs: Callable[[int], Inputs]) -> Iterator[Inputs]:
    """The base with some elements exchanged for those of a new content."""
    for share in _CHANGED_SHARES:
        seed = secrets.randbits(_SEED_BITS)
        fresh = make_inputs(seed)
        generator = torch.Generator().manual_seed(seed)
        content: Inputs = {}
        for name, t in base.items():
            new = fresh[name]
            if t is None or new is None or not t.numel() or not (is_upstream(name) or are_exchangeable(op.args[name])):
                content[name] = t
                continue
            count = max(1, int(share * t.numel()))
            places = torch.randint(0, t.numel(), (count,), generator=generator).to(t.device)
            changed = t.clone()
            changed.view(-1)[places] = new.reshape(-1)[places]
            content[name] = changed
        yield content


def _is_old(
    outputs: Outputs, before: Outputs, right: Outputs, right_before: Outputs, max_errors: tuple[float, ...]
) -> bool:
    """Whether most of what had to change clearly is the same bits as before."""
    must_change = unchanged = 0
    for got, old, want, want_old, max_error in zip(outputs, before, right, right_before, max_errors, strict=True):
        moved = _is_far(want, want_old, max_error)
        must_change += int(moved.sum())
        unchanged += int((moved & (got == old)).sum())
    return unchanged > must_change / 2


def _is_unrelated(outputs: Outputs, right: Outputs, max_errors: tuple[float, ...]) -> bool:
    """Whether much of a result is far off. How exact it is was decided by the check."""
    pairs = zip(outputs, right, max_errors, strict=True)
    return any(float(_is_far(got, want, max_error).double().mean()) > _FAR_SHARE for got, want, max_error in pairs)


def _is_far(value: torch.Tensor, other: torch.Tensor, max_error: float) -> torch.Tensor:
    """Which finite elements differ by far more than rounding explains. Integers differ if they are not equal."""
    if not other.is_floating_point():
        return value != other
    a, b = value.double(), other.double()
    finite = a.isfinite() & b.isfinite()
    a, b = torch.where(finite, a, 0.0), torch.where(finite, b, 0.0)
    scale = torch.maximum(b.abs(), b.square().mean().sqrt())
    return (a - b).abs() > max(_CLEAR_ROUNDINGS, 4 * max_error) * torch.finfo(other.dtype).eps * scale


def refuse_slow_on_new_inputs(
    timer: BurstTimer,
    impl: TimedImpl,
    calls: int,
    usual_us: float,
    make_inputs: Callable[[int], Inputs],
) -> None:
    """Raise Wrong if an implementation is much slower on new inputs, every time.

    `usual_us` is the time that is reported for it. The slowest burst on known inputs is compared with the fastest on
    new ones, so that one with occasional slow calls is not refused. Inputs are drawn before both: what is freed then
    decides whether the next results lie in memory that has to be mapped, which may take longer than the call.
    """
    if impl.restores_inputs:
        return
    sets, on_gpu = impl.sets, timer.device.type == "cuda"
    known_us, new_us = usual_us if on_gpu else 0.0, float("inf")
    for _ in range(_NEW_INPUT_BURSTS):
        make_inputs(secrets.randbits(_SEED_BITS))
        for number in range(len(sets)):
            sets.restore(number)
        known_us = max(known_us, _time_us(timer, impl, calls) if on_gpu else _cpu_time_us(impl))
        for number in range(len(sets)):
            sets.overwrite(number, make_inputs(secrets.randbits(_SEED_BITS)))
        new_us = min(new_us, _time_us(timer, impl, calls) if on_gpu else _cpu_time_us(impl))
        sets.swap()
        if new_us <= _SLOWDOWN * known_us:
            return
    slowdown = new_us / max(known_us, 1e-3)
    raise Wrong(f"takes {slowdown:.2g} times as long on inputs it has not seen before: it caches results")


def _time_us(timer: BurstTimer, impl: TimedImpl, calls: int) -> float:
    return timer.burst(impl, BurstSpec(calls=calls)).samples_us[0]


def _cpu_time_us(impl: TimedImpl) -> float:
    """Of a call on each of a few sets. Other processes delay a call on the CPU, and add little to its CPU time."""
    calls = impl.prepare_calls(list(range(min(_CPU_CALLS, len(impl.sets)))))
    start = process_time_ns()
    for call in calls:
        call()
    return (process_time_ns() - start) / 1e3 / len(calls)
