"""Checks made while implementations are timed.

Each result must belong to its inputs, no work may be left on another stream, no function may be replaced, and nothing
may be compiled in the timed region. Telemetry of the machine is sampled meanwhile. Results are sampled here, and judged
when the series has ended.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch

from kernellab.accuracy.outputs import Outputs, Wrong, as_tensors
from kernellab.accuracy.spot_check import ResultForm, Sample, take_again, take_sample
from kernellab.activity.compilation import CompilationLog
from kernellab.checking.form import refuse_returned_inputs
from kernellab.declaration.inputs import Inputs
from kernellab.declaration.op import Op
from kernellab.machine.telemetry import Telemetry
from kernellab.running.worker.guards.global_state import FunctionSnapshot, restore_generator
from kernellab.running.worker.guards.integrity import Integrity
from kernellab.timing.timed_impl import TimedImpl
from kernellab.timing.timer import Burst, Verify

_TAIL_US = 100.0  # waiting for an idle device takes about 15 µs
_TAIL_BURSTS = 4  # a busy host may delay a wait, but hardly in so many bursts in a row
_SAMPLED_SHARE = 0.125  # of the bursts: input checksums and replaced functions. Results are sampled in every burst.
_ALWAYS_CHECKED_BURSTS = 2  # the first bursts of an implementation, after which inputs are always checked


class CompiledInside(Exception):
    """Something was compiled, tuned or built in the timed region, so the sample is not the implementation's time."""


@dataclass(frozen=True)
class ResultSample:
    """A sampled result, and the index of the content of its inputs."""

    content: int
    sample: Sample


@dataclass(frozen=True)
class _Pending:
    """A sample of the burst that has just ended."""

    outputs: Outputs
    set_number: int
    result: ResultSample
    inputs_intact: torch.Tensor | None  # None: not checked in this burst


class TimingGuard:
    """`samples` has the sampled results of each implementation. Without a `form` results are not sampled.

    `disturbed`: some implementation has replaced a function or changed an input, and it is not known which. With
    `strict`, functions and inputs are checked after every burst, so that it is known.
    """

    def __init__(
        self,
        op: Op,
        form: ResultForm | None,
        telemetry: Telemetry,
        *,
        integrity: Integrity,
        objects: Sequence[object],
        seed: int,
        note: Callable[[str, str], None],
        strict: bool = False,
    ) -> None:
        """`objects`: those that measure and send. An implementation may find them and give them methods of its own."""
        self._op, self._form, self._telemetry, self._note = op, form, telemetry, note
        self.samples: dict[str, list[ResultSample]] = {}
        self._integrity, self._objects = integrity, (self, *objects)
        self._log = CompilationLog.installed()
        self._sampling = random.Random(seed)
        self._tails_us: dict[str, list[float]] = {}
        self._verified_bursts: dict[str, int] = {}
        self.disturbed, self._strict = False, strict
        self._inputs_changed = strict  # some implementation has changed an input; which one is not known yet
        self._functions, self._generator = FunctionSnapshot(), torch.get_rng_state()
        self._clean_before_burst = True  # functions and generator were checked after the burst before this one
        self._functions_replaced = strict  # some implementation has replaced a function
        self._log_mark = 0
        self._pending: _Pending | None = None
        self._burst_clock_mhz: float | None = None

    def clock_mhz(self) -> float | None:
        reading = self._telemetry.sample(force=True) or {}
        mhz = reading.get("sm_mhz")
        return float(mhz) if isinstance(mhz, (int, float)) else None

    def burst_clock_mhz(self) -> float | None:
        return self._burst_clock_mhz

    def verifier(self, impl: TimedImpl) -> Verify:
        """Queues the sampling right behind the last call, on its stream, so that late work is not in the sample."""
        self._log_mark = self._log.mark()

        def verify(result: object, number: int) -> None:
            self._pending = None
            if self._form is not None:
                outputs = as_tensors(fill_missing_gradients(self._op, result, impl.sets[number]))
                self._form.require(outputs)
                refuse_returned_inputs(self._op[impl.name], outputs, impl.sets[number], self._form.aliases)
                sampled = ResultSample(impl.sets.content_of(number), take_sample(outputs))
                self._pending = _Pending(outputs, number, sampled, self._check_inputs(impl, number))
            self._burst_clock_mhz = self._telemetry.clock_mhz()  # now, because the device is busy
            self._telemetry.sample()

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
        if self._strict and not impl.sets.contents_intact():
            impl.sets.remake_contents()
            raise Wrong("changed inputs that were not given to it")
        if impl.sets.changed_before_swap():
            self._forget_samples()
        if self._pending is not None:
            pending, self._pending = self._pending, None
            self._keep(impl, pending)
            if pending.inputs_intact is not None and not bool(pending.inputs_intact):
                self._attribute_change(impl, pending.set_number)

    def _keep(self, impl: TimedImpl, pending: _Pending) -> None:
        result = pending.result
        if any(t.is_cuda for t in pending.outputs):  # what is right only now came late
            result = replace(result, sample=take_again(result.sample, pending.outputs))
        self.samples.setdefault(impl.name, []).append(result)

    def _forget_samples(self) -> None:
        """Some implementation has changed an input: what was sampled since may be wrong through its fault. From now on
        all inputs are checked after every burst."""
        self._inputs_changed = self.disturbed = True
        self.samples.clear()

    def refuse_replaced_functions(self, impl: TimedImpl, *, timed: bool) -> None:
        """Restore replaced functions and the random generator; raise Wrong if `impl` replaced a function.

        Checked after every burst of the warm-up, then after a random share; after every burst once a function has
        been replaced. Where the burst before was not checked, the change may be another implementation's.
        """
        was_clean, self._clean_before_burst = self._clean_before_burst, False
        if timed and not self._functions_replaced and self._sampling.random() > _SAMPLED_SHARE:
            return
        self._clean_before_burst = True
        if restore_generator(self._generator) and was_clean and not self._op[impl.name].random:
            self._note(impl.name, "drew from torch's global random generator")
        replaced = self._restore_functions()
        if replaced and was_clean:
            raise Wrong(f"replaced {replaced[0]}")
        self.disturbed |= bool(replaced)

    def check_functions_finally(self) -> None:
        """After the last burst, whether or not it was checked."""
        self.disturbed |= bool(self._restore_functions())

    def _restore_functions(self) -> list[str]:
        """Undo every replacement; the names of what had been replaced, of kernellab's own code only if strict: the code
        of this guard may be among it, and then only a check after every burst tells who did it."""
        own, others = self._integrity.restore(*self._objects), self._functions.restore()
        self.disturbed |= bool(own)
        if own or others:  # what was computed with them proves nothing
            self._functions_replaced = True
            self.samples.clear()
        return [*own, *others] if self._strict else others

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

    def _attribute_change(self, impl: TimedImpl, number: int) -> None:
        """An input was changed. Rewrite all inputs and call again to see whether `impl` is the cause."""
        self._restore_functions()
        for set_number in range(len(impl.sets)):
            impl.sets.restore(set_number)
        impl.prepare_calls([number])[0]()
        if not bool(impl.sets.intact(number)):
            raise Wrong("changed its input while it was timed")
        # Another implementation changed the input, or this one does so only sometimes.
        self._forget_samples()


def fill_missing_gradients(op: Op, result: object, inputs: Inputs) -> object:
    """Zeros for the gradient None of an input that the result does not depend on: the oracle has zeros there."""
    if isinstance(result, tuple) and any(gradient is None for gradient in result):
        leaves = [t for name in op.gradient_args if (t := inputs[name]) is not None]
        pairs = zip(leaves, result, strict=False)
        return tuple(torch.zeros_like(t) if gradient is None else gradient for t, gradient in pairs)
    return result
