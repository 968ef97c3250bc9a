"""Checks made while implementations are timed.

Each result must belong to its inputs, no work may be left on another stream, no function may be replaced, and nothing
may be compiled in the timed region. Telemetry of the machine is sampled meanwhile.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from kernellab.accuracy.outputs import Outputs, Wrong, as_tensors
from kernellab.accuracy.spot_check import SpotCheck
from kernellab.activity.compilation import CompilationLog
from kernellab.checking.form import refuse_returned_inputs
from kernellab.declaration.inputs import Inputs
from kernellab.declaration.op import Op
from kernellab.machine.telemetry import Telemetry
from kernellab.running.worker.global_state import FunctionSnapshot, restore_generator
from kernellab.timing.timed_impl import TimedImpl
from kernellab.timing.timer import Burst, Verify

_TAIL_US = 100.0  # waiting for an idle device takes about 15 µs
_TAIL_BURSTS = 4  # a busy host may delay a wait, but hardly in so many bursts in a row
_SAMPLED_SHARE = 0.125  # of the bursts: input checksums and replaced functions. Results are compared in every burst.
_ALWAYS_CHECKED_BURSTS = 2  # the first bursts of an implementation, after which inputs are always checked


class CompiledInside(Exception):
    """Something was compiled, tuned or built in the timed region, so the sample is not the implementation's time."""


@dataclass(frozen=True)
class _QueuedComparison:
    """A verification that the device has not finished when it is queued."""

    outputs: Outputs
    set_number: int
    matches: torch.Tensor
    inputs_intact: torch.Tensor | None  # None: not checked in this burst


class TimingGuard:
    """`spots[content]` knows the right results for that content. Without spots results are not verified."""

    def __init__(
        self,
        op: Op,
        spots: Sequence[SpotCheck],
        telemetry: Telemetry,
        *,
        seed: int,
        note: Callable[[str, str], None],
    ) -> None:
        self._op, self._spots, self._telemetry, self._note = op, spots, telemetry, note
        self._log = CompilationLog.installed()
        self._sampling = random.Random(seed)
        self._tails_us: dict[str, list[float]] = {}
        self._verified_bursts: dict[str, int] = {}
        self._inputs_changed = False  # some implementation has changed an input; which one is not known yet
        self._functions, self._generator = FunctionSnapshot(), torch.get_rng_state()
        self._clean_before_burst = True  # functions and generator were checked after the burst before this one
        self._functions_replaced = False  # some implementation has replaced a function
        self._log_mark = 0
        self._queued: _QueuedComparison | None = None

    def clock_mhz(self) -> float | None:
        reading = self._telemetry.sample(force=True) or {}
        mhz = reading.get("sm_mhz")
        return float(mhz) if isinstance(mhz, (int, float)) else None

    def verifier(self, impl: TimedImpl) -> Verify:
        """Queues the comparison right behind the last call, on its stream, so that late work is not in the result."""
        self._log_mark = self._log.mark()

        def verify(result: object, number: int) -> None:
            self._queued = None
            if self._spots:
                outputs = as_tensors(_fill_missing_gradients(self._op, result, impl.sets[number]))
                spot = self._spots[impl.sets.content_of(number)]
                spot.require_form(outputs)
                refuse_returned_inputs(self._op[impl.name], outputs, impl.sets[number], spot.aliases)
                intact = self._check_inputs(impl, number)
                self._queued = _QueuedComparison(outputs, number, spot.matches(outputs), intact)
            self._telemetry.sample()  # now, because the device is busy

        return verify

    def _check_inputs(self, impl: TimedImpl, number: int) -> torch.Tensor | None:
        """Whether inputs are unchanged, or None if not checked.

        Checked after an implementation's first bursts, then after a random share; after every burst once an input
        has been changed.
        """
        count = self._verified_bursts[impl.name] = self._verified_bursts.get(impl.name, 0) + 1
        if impl.restores_inputs:
            return None
        if self._inputs_changed:
            return impl.sets.all_intact()
        if count <= _ALWAYS_CHECKED_BURSTS or self._sampling.random() < _SAMPLED_SHARE:
            return impl.sets.intact(number)
        return None

    def judge(self, impl: TimedImpl, burst: Burst, *, timed: bool) -> None:
        compiled = self._log.since(self._log_mark) if timed else []
        if timed and burst.stream_held is False:
            self._note(impl.name, "its stream could not be held back: its time may include launches and waiting")
        self._refuse_work_left(impl, burst)
        self.refuse_replaced_functions(impl, timed=timed and not compiled)
        if compiled and not self._functions_replaced:  # a replaced function makes other implementations recompile
            first = compiled[0]
            raise CompiledInside(
                f"{first.kind} of {first.name} in the timed region ({first.seconds:.3g} s): a time would include it"
            )
        self._inputs_changed |= impl.sets.changed_before_swap()
        if self._queued is not None:
            queued, self._queued = self._queued, None
            intact = queued.inputs_intact is None or bool(queued.inputs_intact)
            if not (intact and bool(queued.matches)):
                self._attribute_mismatch(impl, queued.outputs, queued.set_number)

    def refuse_replaced_functions(self, impl: TimedImpl, *, timed: bool) -> None:
        """Restore replaced functions and the random generator; raise Wrong if `impl` replaced a function.

        Checked after every burst of the warm-up, then after a random share; after every burst once a function has
        been replaced. Where the burst before was not checked, the change may be another implementation's.
        """
        was_clean, self._clean_before_burst = self._clean_before_burst, False
        if timed and not self._functions_replaced and self._sampling.random() > _SAMPLED_SHARE:
            return
        self._clean_before_burst = True
        if restore_generator(self._generator) and was_clean:
            self._note(impl.name, "drew from torch's global random generator")
        replaced = self._functions.restore()
        self._functions_replaced |= bool(replaced)
        if replaced and was_clean:
            raise Wrong(f"replaced {replaced[0]}")

    def _refuse_work_left(self, impl: TimedImpl, burst: Burst) -> None:
        if burst.tail_us is None:
            return
        tails_us = self._tails_us.setdefault(impl.name, [])
        tails_us.append(burst.tail_us)
        recent = tails_us[-_TAIL_BURSTS:]
        if len(recent) == _TAIL_BURSTS and min(recent) > max(_TAIL_US, 0.1 * max(burst.samples_us)):
            raise Wrong(
                f"left work on another stream: the device went on for {min(recent):.0f} µs after its stream had ended"
            )

    def _attribute_mismatch(self, impl: TimedImpl, outputs: Outputs, number: int) -> None:
        """A result or an input is wrong. Rewrite all inputs and call again to see whether `impl` is the cause."""
        spot = self._spots[impl.sets.content_of(number)]
        # If `impl` is right with the original functions, another implementation is the cause.
        replaced = self._functions.restore()
        self._functions_replaced |= bool(replaced)
        mismatch = spot.explain_mismatch(outputs)
        inputs_were_intact = not replaced and (impl.restores_inputs or bool(impl.sets.all_intact()))
        for set_number in range(len(impl.sets)):
            impl.sets.restore(set_number)
        repeated = as_tensors(_fill_missing_gradients(self._op, impl.prepare_calls([number])[0](), impl.sets[number]))
        right = bool(spot.matches(repeated))
        if not impl.restores_inputs and not bool(impl.sets.intact(number)):
            raise Wrong("changed its input while it was timed")
        if not right:
            raise spot.explain_mismatch(repeated)
        if inputs_were_intact:
            raise mismatch
        # Another implementation changed the input, or this one does so only sometimes: check every burst from now on.
        self._inputs_changed |= not replaced


def _fill_missing_gradients(op: Op, result: object, inputs: Inputs) -> object:
    """Zeros for the gradient None of an input that the result does not depend on: the oracle has zeros there."""
    if isinstance(result, tuple) and any(gradient is None for gradient in result):
        leaves = [t for name in op.gradient_args if (t := inputs[name]) is not None]
        pairs = zip(leaves, result, strict=False)
        return tuple(torch.zeros_like(t) if gradient is None else gradient for t, gradient in pairs)
    return result
