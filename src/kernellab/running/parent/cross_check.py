"""Whether the times that a worker reports are true, by the parent's own clock.

Foreign code runs in the worker and may forge what the worker's clock says. It cannot reach this process. So the parent
has the worker run batches of calls, chooses how many, and measures each from its own message to the worker's answer. A
call cannot take longer in a batch than the worker reported, within a tolerance, unless the host takes longer to launch
the calls than the GPU to run them, or other processes delay the worker or use its GPU: then nothing can be told.
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from time import perf_counter_ns

from kernellab.machine.gpu_telemetry import OtherUsers
from kernellab.machine.nvml import Nvml
from kernellab.record.event import Event
from kernellab.record.result_events import SamplesDiscarded
from kernellab.record.schema import CrossCheckJson, SeriesJson
from kernellab.running.processes.kernel_counts import KernelCounts, own_wait_us, read_kernel_counts
from kernellab.running.protocol.commands import Command, RunBatch, StartBatch
from kernellab.running.protocol.events import BatchEnded, BatchOffered, BatchQueued, BatchReady, DeviceChosen

AGREES, DISAGREES, NOT_CHECKED = "agrees", "disagrees", "not cross-checked"

# How many times as long as reported a call may take in a batch. On a CPU, data, clock and neighbours change more.
TOLERANCE = {"cuda": 1.25, "cpu": 1.5}
_SLACK_US = 200.0  # of a batch: a message that is delivered a little later than usual
_LEAST_US = {"cuda": 1000.0, "cpu": 2000.0}  # of a batch: in a shorter one the slack would show
_DISAGREEMENTS = 3  # refuse the time
_SLOWDOWNS = 3  # explain it: one may be a delay of the worker's timer alone, which would excuse a forged time
_MOST_BATCHES = 8
_EMPTY_BATCHES = 3  # show how long the messages take
_BUSY = 0.1  # of a batch, spent waiting for a core
_RAN = 0.5  # of a batch, at least, all threads together
_MAPPING = 0.1  # of a batch, spent mapping memory
_HOST_BOUND = 0.7  # of a batch, spent until all calls are queued
_SEED_BITS = 48


@dataclass
class _Clock:
    """A batch under way: when it began, when all calls were queued, when it ended, in microseconds."""

    calls: int
    before: KernelCounts | None = None
    began_us: float = 0.0
    queued_us: float | None = None
    ended_us: float | None = None
    own_wait_us: float = 0.0  # that this process had waited for a core when the batch began
    delay_us: float = 0.0  # that the worker was kept from running, and this process from hearing of its end
    ran_us: float = 0.0  # all threads of the worker
    mapping_us: float = 0.0  # that the system took to map memory for it


@dataclass
class CrossCheck:
    """The batches of one implementation in one series. `reported_us`: the median of what its worker reported."""

    device_type: str
    reported_us: float
    worker_pid: int
    others_use_device: Callable[[], bool] = lambda: False
    verdict: str | None = None
    reason: str | None = None
    outside_us: float | None = None  # per call, in the batch that decided
    calls: int | None = None
    batches: int = 0
    _disagreements: list[float] = field(default_factory=list)
    _slowdowns: int = 0  # batches that took longer, as the worker's timer did beside them
    _empty_us: list[float] = field(default_factory=list)
    _near_us: float = 0.0  # what the worker's timer said before the batch
    _clock: _Clock | None = None
    _obstacle: str = "no batch was run"
    _random: random.Random = field(default_factory=random.SystemRandom)

    def next_batch(self, offer: BatchOffered) -> RunBatch:
        """What to run next, given what came of the batch before. Without calls: nothing more."""
        if self._clock is not None and self.verdict is None:
            self._judge(self._clock, max(self._near_us, offer.near_us))
        self._near_us, self._clock = offer.near_us, None
        if self.verdict is None and self.batches >= _MOST_BATCHES:
            self._conclude(NOT_CHECKED, self._obstacle)
        if self.verdict is not None:
            return RunBatch(calls=None, seed=0)
        calls = 0
        if len(self._empty_us) >= _EMPTY_BATCHES:
            calls = self._random.randint(math.ceil(offer.most / 2), offer.most)
            self.batches += 1
        self._clock = _Clock(calls)
        return RunBatch(calls=calls, seed=self._random.getrandbits(_SEED_BITS))

    def begin(self) -> StartBatch:
        """The worker is ready: the answer starts the batch."""
        if self._clock is None:
            self._clock = _Clock(0)  # nobody asked for it: its end is not expected either
        self._clock.before = read_kernel_counts(self.worker_pid)
        self._clock.own_wait_us = own_wait_us()
        self._clock.began_us = _now_us()
        return StartBatch()

    def mark_queued(self) -> None:
        if self._clock is not None:
            self._clock.queued_us = _now_us()

    def end(self) -> None:
        if self._clock is None or self._clock.ended_us is not None:
            self._conclude(DISAGREES, "it told the parent that its calls had ended, which only kernellab does")
            return
        clock = self._clock
        clock.ended_us = _now_us()
        clock.delay_us = own_wait_us() - clock.own_wait_us
        if clock.before is not None:
            counts = read_kernel_counts(self.worker_pid)
            clock.delay_us += counts.delay_since(clock.before, clock.ended_us - clock.began_us)
            clock.ran_us = counts.ran_since(clock.before)
            clock.mapping_us = counts.mapping_since(clock.before)

    def to_json(self) -> CrossCheckJson:
        return {
            "verdict": self.verdict or NOT_CHECKED,
            "reason": self.reason if self.verdict else self._obstacle,
            "outside_us": self.outside_us,
            "calls": self.calls,
            "batches": self.batches,
            "tolerance": TOLERANCE[self.device_type],
        }

    def _judge(self, clock: _Clock, near_us: float) -> None:
        if clock.ended_us is None:
            self._obstacle = "the worker did not end its batch"
            return
        elapsed_us = clock.ended_us - clock.began_us
        # Time in which the worker had no core, or this process, is not time that its calls take.
        total_us = max(0.0, elapsed_us - clock.delay_us)
        if not clock.calls:
            self._empty_us.append(total_us)
            return
        message_us = min(self._empty_us)
        work_us = total_us - message_us
        call_us = work_us / clock.calls
        self.outside_us, self.calls = call_us, clock.calls
        tolerance = TOLERANCE[self.device_type]
        fixed_us = _SLACK_US + message_us
        allowed_us = clock.calls * self.reported_us * tolerance + fixed_us
        # Where the machine has become slower, the worker's own timer says so before or after the batch.
        allowed_if_slower_us = clock.calls * max(self.reported_us, near_us) * tolerance + fixed_us
        # On a CPU the worker computes all the time. Where it hardly ran, threads waited for each other and for cores.
        asleep = self.device_type == "cpu" and clock.ran_us < _RAN * elapsed_us
        busy = clock.delay_us > _BUSY * elapsed_us or asleep
        least_us = _LEAST_US[self.device_type]
        if elapsed_us - message_us < least_us:
            self._conclude(NOT_CHECKED, f"its batches take less than {least_us / 1e3:.0f} ms")
        elif elapsed_us <= allowed_us or (total_us <= allowed_us and not busy):
            self._conclude(AGREES, None)
        elif elapsed_us <= allowed_if_slower_us or (total_us <= allowed_if_slower_us and not busy):
            self._slowdowns += 1
            self._obstacle = "the machine became slower"
            if self._slowdowns == _SLOWDOWNS:
                self._conclude(AGREES, None)
        elif busy:
            self._obstacle = "other processes kept the worker or klab waiting for a core"
        elif clock.mapping_us > _MAPPING * elapsed_us:
            self._obstacle = "the system took long to map memory for its results"
        elif clock.queued_us is not None and clock.queued_us - clock.began_us - message_us > _HOST_BOUND * work_us:
            self._conclude(NOT_CHECKED, "the host takes longer to launch its calls than the GPU to run them")
        else:
            self._disagreements.append(call_us)
            if len(self._disagreements) < _DISAGREEMENTS:
                return
            if self.others_use_device():
                self._conclude(NOT_CHECKED, "other processes use the GPU")
            else:
                self.outside_us = least = min(self._disagreements)
                self._conclude(
                    DISAGREES,
                    f"its time is not true: {self.reported_us:.4g} µs per call were reported, and it takes at least "
                    f"{least:.4g} µs by a clock outside its process, in {_DISAGREEMENTS} batches",
                )

    def _conclude(self, verdict: str, reason: str | None) -> None:
        self.verdict, self.reason = verdict, reason


class CrossChecks:
    """The cross-checks of one group: answers a worker's questions, and has a verdict for every time."""

    def __init__(
        self,
        device_type: str,
        reported_us: Callable[[str, SeriesJson], float | None],
        worker: Callable[[], DeviceChosen],
    ) -> None:
        self._device_type, self._reported_us, self._worker = device_type, reported_us, worker
        self._users: OtherUsers | None = None  # of the worker's GPU
        self._checks: dict[tuple[str, str], CrossCheck] = {}
        self._current: CrossCheck | None = None

    def observe(self, event: Event) -> Command | None:
        """The answer to a question of the worker's; None for other events."""
        match event:
            case BatchOffered():
                self._look_for_others()
                self._current = self._check(event.impl, event.series)
                return self._current.next_batch(event)
            case BatchReady() if self._current is not None:
                return self._current.begin()
            case BatchQueued() if self._current is not None:
                self._current.mark_queued()
            case BatchEnded() if self._current is not None:
                self._current.end()
            case SamplesDiscarded():  # the series begins again
                self._checks.clear()
        return None

    def conclude(self, impl: str, series: SeriesJson) -> CrossCheckJson:
        return self._check(impl, series).to_json()

    def _check(self, impl: str, series: SeriesJson) -> CrossCheck:
        key = (impl, json.dumps(series))
        if key not in self._checks:
            reported_us = self._reported_us(impl, series) or 0.0
            self._checks[key] = CrossCheck(self._device_type, reported_us, self._worker().pid, self._others_use_device)
        return self._checks[key]

    def _look_for_others(self) -> None:
        """Who uses a GPU is known only for the time after the first question."""
        if self._users is None and self._device_type == "cuda":
            worker = self._worker()
            self._users = OtherUsers(Nvml(worker.uuid), worker.pid)
            self._users.start()

    def _others_use_device(self) -> bool:
        return self._users is not None and self._users.wait_for_count() > 0


def _now_us() -> float:
    return perf_counter_ns() / 1e3
