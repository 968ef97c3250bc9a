"""Batches that the parent times with its own clock, to see whether the times that this process reports are true.

The parent chooses the number of calls and the seed of their inputs, which no implementation has seen. It says when to
begin, and is told when all calls have ended. A result of each batch is sampled, and verified after the series.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from contextlib import AbstractContextManager

import torch

from kernellab.accuracy.outputs import as_tensors
from kernellab.accuracy.spot_check import take_sample
from kernellab.declaration.inputs import Inputs
from kernellab.declaration.op import Op
from kernellab.record.schema import SeriesJson
from kernellab.running.protocol.commands import RunBatch, StartBatch
from kernellab.running.protocol.events import BatchEnded, BatchOffered, BatchQueued, BatchReady
from kernellab.running.worker.channel import Channel
from kernellab.running.worker.guards.result_judge import BatchSample
from kernellab.running.worker.guards.timing_guard import fill_missing_gradients
from kernellab.timing.rounds import MOST_CALLS, Rounds
from kernellab.timing.timed_impl import Call, TimedImpl
from kernellab.timing.timer import COLD
from kernellab.timing.window import make_calls, wait_for

_BATCH_US = 30_000.0  # long compared with a message to the parent


class BatchRunner:
    """Runs the batches that the parent asks for. `make_inputs(seed)` makes a content of the inputs.

    Between two batches there is one more round, which tells whether the machine is still as fast as it was. It is a
    round like the others, so that what forges their times forges this one too.
    """

    def __init__(
        self,
        channel: Channel,
        op: Op,
        series: SeriesJson,
        rounds: Rounds,
        make_inputs: Callable[[int], Inputs],
        running: Callable[[str], AbstractContextManager[None]],
    ) -> None:
        self._channel, self._series, self._rounds, self._timer = channel, series, rounds, rounds.timer
        self._op, self._make_inputs, self._running = op, make_inputs, running

    def run(self, name: str, reported_us: float) -> list[BatchSample]:
        """Run batches of an implementation until the parent has enough."""
        impl = self._rounds.impls[name]
        fitting = int(_BATCH_US / max(reported_us, 1e-3)) + 2
        most = max(1, min(fitting, MOST_CALLS, self._rounds.most_sets - 1))  # one set is spare
        if impl.restores_inputs and self._timer.cache != COLD:
            most = 1
        samples: list[BatchSample] = []
        while True:
            near_us = statistics.median(self._rounds.run_another(name))
            with self._running(name):
                offer = BatchOffered(
                    pass_name=self._series["pass"],
                    timer=self._series["timer"],
                    cache=self._series["cache"],
                    impl=name,
                    most=most,
                    near_us=near_us,
                )
                batch = self._channel.ask(offer, RunBatch)
                if batch.calls is None:
                    return samples
                sample = self._run_batch(impl, batch.calls, batch.seed)
                if sample is not None:
                    samples.append(sample)

    def _run_batch(self, impl: TimedImpl, count: int, seed: int) -> BatchSample | None:
        device, cache, sets = self._timer.device, self._timer.cache, impl.sets
        numbers = list(range(count)) if cache == COLD else [0] * count
        spare = min(len(set(numbers)), self._rounds.most_sets - 1)
        sets.grow_to(spare + 1)
        if not impl.restores_inputs:
            for number in set(numbers):
                sets.overwrite(number, self._make_inputs(seed + number))
        if count:  # memory for the results is mapped here, outside the time, by calls on other inputs
            self._make_windows(impl, tuple(impl.prepare_calls([spare] * (2 * self._rounds.calls[impl.name]))))
        calls = tuple(impl.prepare_calls(numbers))
        wait_for(device)
        self._channel.ask(BatchReady(), StartBatch)
        result, index = self._make_windows(impl, calls) if count else (None, 0)
        if device.type == "cuda":
            self._channel.send(BatchQueued())
            wait_for(device)
        self._channel.send(BatchEnded())
        sample = None
        if count and not impl.restores_inputs:
            number = numbers[index]
            outputs = as_tensors(fill_missing_gradients(self._op, result, sets[number]))
            sample = BatchSample(seed + number, take_sample(outputs))
        with torch.no_grad():
            sets.swap()  # writes the usual contents again
        return sample

    def _make_windows(self, impl: TimedImpl, calls: tuple[Call, ...]) -> tuple[object, int]:
        """Make the calls; returns one of the results and its index.

        As many results are kept at once as in a window of the rounds. More would need memory that the system has to
        map first, which takes longer than the call where the call is simple.
        """
        window = self._rounds.calls[impl.name]
        picked = impl.pick(len(calls))
        kept: tuple[object, int] = None, 0
        for start in range(0, len(calls), window):
            result, index = make_calls(calls[start : start + window], self._timer.cache, impl)
            if start <= picked < start + window:
                kept = result, start + index
        return kept
