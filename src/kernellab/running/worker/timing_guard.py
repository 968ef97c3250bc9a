"""Watches the ways while they are timed: that every result belongs to its inputs, that nothing is left behind,
that nothing is compiled in the timed region, and what the machine does meanwhile."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import torch

from kernellab.accuracy.outputs import Outputs, Wrong, as_tensors
from kernellab.accuracy.spot_check import SpotCheck
from kernellab.activity.compilation import CompilationLog
from kernellab.checking.form import refuse_returned_inputs
from kernellab.declaration.op import Op
from kernellab.machine.telemetry import Telemetry
from kernellab.running.worker.global_state import Functions, drew_random_numbers
from kernellab.timing.timed_impl import TimedImpl
from kernellab.timing.timer import Burst, Verify

_TAIL_US = 100.0  # waiting for an idle device takes about 15 µs
_TAIL_BURSTS = 4  # a busy host may delay a wait, but hardly so often in a row
_CHECKSUMS = 0.125  # how often all of a set's bits are looked at; the results are looked at always


class CompiledInside(Exception):
    """Something was compiled, tuned or built in the timed region: its time is not the way's."""


class Witness:
    """`spots[content]` says what the results of that content must be; without spots results go unverified."""

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
        self._chance = random.Random(seed)
        self._tails: dict[str, list[float]] = {}
        self._seen: dict[str, int] = {}
        self._spoiled = False  # somebody has changed an input, and it is not yet known who
        self._functions, self._generator = Functions(), torch.get_rng_state()
        self._known_clean = True  # what the functions and the generator were before this burst
        self._tampered = False  # somebody has replaced a function, and it is not yet known who
        self._mark = 0
        self._pending: tuple[Outputs, int, torch.Tensor, torch.Tensor | None] | None = None

    def clock_mhz(self) -> float | None:
        reading = self._telemetry.sample(force=True) or {}
        mhz = reading.get("sm_mhz")
        return float(mhz) if isinstance(mhz, (int, float)) else None

    def verifier(self, work: TimedImpl) -> Verify:
        """Queue the verification right behind the last call, on its stream, so that late work comes too late."""
        self._mark = self._log.mark()

        def verify(result: Any, number: int) -> None:
            self._pending = None
            if self._spots:
                outputs = as_tensors(_without_none(result, work, number))
                spot = self._spots[work.sets.content_of(number)]
                spot.require_form(outputs)
                refuse_returned_inputs(self._op[work.name], outputs, work.sets[number], spot.aliases)
                self._pending = (outputs, number, spot.matches(outputs), self._intact(work, number))
            self._telemetry.sample()  # the device is at work now

        return verify

    def _intact(self, work: TimedImpl, number: int) -> torch.Tensor | None:
        """Looked at after a way's first bursts, then now and then; always once an input has been spoiled."""
        seen = self._seen[work.name] = self._seen.get(work.name, 0) + 1
        if work.restores_inputs:
            return None
        if self._spoiled:
            return work.sets.all_intact()
        return work.sets.intact(number) if seen <= 2 or self._chance.random() < _CHECKSUMS else None

    def judge(self, work: TimedImpl, burst: Burst, *, timed: bool) -> None:
        compiled = self._log.since(self._mark) if timed else []
        if timed and burst.stream_held is False:
            self._note(work.name, "its stream could not be held back: its time may contain launches and waiting")
        self._refuse_work_left(work, burst)
        self.refuse_replacing(work, timed=timed and not compiled)
        if compiled and not self._tampered:  # a replaced function makes its neighbours compile anew
            first = compiled[0]
            raise CompiledInside(
                f"{first.kind} of {first.name} in the timed region ({first.seconds:.3g} s): a time would include it"
            )
        self._spoiled |= work.sets.changed_before_swap()
        if self._pending is not None:
            outputs, number, fine, intact = self._pending
            self._pending = None
            unchanged = intact is None or bool(intact)
            if not (unchanged and bool(fine)):
                self._accuse(work, outputs, number)

    def refuse_replacing(self, work: TimedImpl, *, timed: bool) -> None:
        """Looked at after every burst of the warm-up, then now and then; always once somebody has been caught."""
        exact, self._known_clean = self._known_clean, False
        if timed and not self._tampered and self._chance.random() > _CHECKSUMS:
            return
        self._known_clean = True
        if drew_random_numbers(self._generator) and exact:
            self._note(work.name, "drew from torch's global random generator")
        replaced = self._functions.put_back()
        self._tampered |= bool(replaced)
        if replaced and exact:
            raise Wrong(f"replaced {replaced[0]}")

    def _refuse_work_left(self, work: TimedImpl, burst: Burst) -> None:
        if burst.tail_us is None:
            return
        tails = self._tails.setdefault(work.name, [])
        tails.append(burst.tail_us)
        recent = tails[-_TAIL_BURSTS:]
        if len(recent) == _TAIL_BURSTS and min(recent) > max(_TAIL_US, 0.1 * max(burst.samples_us)):
            raise Wrong(f"left work on another stream: the device went on for {min(recent):.0f} µs after its end")

    def _accuse(self, work: TimedImpl, outputs: Outputs, number: int) -> None:
        """A result or an input is not what it must be. Find out whose doing it is, on inputs written anew."""
        spot = self._spots[work.sets.content_of(number)]
        replaced = self._functions.put_back()  # a neighbour's doing, if this way is right without it
        self._tampered |= bool(replaced)
        complaint = spot.explain_mismatch(outputs)
        was_intact = not replaced and (work.restores_inputs or bool(work.sets.all_intact()))
        for one in range(len(work.sets)):
            work.sets.restore(one)
        again = as_tensors(_without_none(work.prepare_calls([number])[0](), work, number))
        right = bool(spot.matches(again))
        if not work.restores_inputs and not bool(work.sets.intact(number)):
            raise Wrong("changed its input while it was timed")
        if not right:
            raise spot.explain_mismatch(again)
        if was_intact:
            raise complaint
        self._spoiled |= (
            not replaced
        )  # by a neighbour, or by this way now and then: from now on every burst is looked at


def _without_none(result: Any, work: TimedImpl, number: int) -> Any:
    """Gradients of inputs that play no part are None; the truth has zeros there."""
    if isinstance(result, tuple) and any(r is None for r in result):
        floats = [t for t in work.sets[number].values() if t is not None and t.is_floating_point()]
        return tuple(torch.zeros_like(t) if r is None else r for t, r in zip(floats, result, strict=False))
    return result
