"""One series of timings: implementations of one op at one case, in one pass, by one timer."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from time import monotonic
from typing import Any, TypedDict, cast

import torch

from kernellab.accuracy.outputs import Wrong
from kernellab.accuracy.spot_check import SpotCheck
from kernellab.base.user_code import explain, user_frames
from kernellab.declaration.inputs import Inputs
from kernellab.declaration.passes import pass_of
from kernellab.machine.gpu_state import gpu_is_dead, synchronise
from kernellab.machine.memory import free_bytes, is_memory_error, out_of_memory, peak
from kernellab.machine.telemetry import Telemetry
from kernellab.record.result_events import ImplFailed, MemoryMeasured, RoundTimed, SamplesDiscarded, SeriesTimed
from kernellab.record.schema import MemoryJson, SeriesJson
from kernellab.record.settings import TimingPlan
from kernellab.running.worker.channel import GpuContextLost
from kernellab.running.worker.global_state import guarded, settings_guarded
from kernellab.running.worker.task import Task
from kernellab.running.worker.timing_guard import Witness
from kernellab.stats.intervals import quantile
from kernellab.timing.input_sets import InputSets
from kernellab.timing.rounds import MOST_CALLS, Plan, Rounds
from kernellab.timing.timed_impl import TimedImpl
from kernellab.timing.timer import BurstSpec, BurstTimer, NotApplicable
from kernellab.timing.timers import burst_timer

_UNSEEN, _CACHED = 3, 1.5  # windows on inputs never met before; so many times as long there is remembering
_SHARE_FOR_SETS = 0.25  # of the free memory: copies of the inputs and the results of one window


def _same_memory(a: Any, b: Any) -> bool:
    """Whether a tensor of one lives in the memory of one of the other."""
    mine, theirs = (
        {t.untyped_storage().data_ptr() for t in (x if isinstance(x, (tuple, list)) else (x,)) if _is_stored(t)}
        for x in (a, b)
    )
    return bool(mine & theirs)


def _is_stored(t: Any) -> bool:
    return isinstance(t, torch.Tensor) and t.numel() > 0


class SeriesFields(TypedDict):
    """A series as events carry it."""

    pass_name: str
    timer: str | None
    cache: str | None


class Failed(Exception):
    """A way failed while being timed."""

    def __init__(self, impl: str, error: BaseException) -> None:
        super().__init__(impl)
        self.impl, self.error = impl, error


class SeriesWork:
    def __init__(self, task: Task, series: SeriesJson, telemetry: Telemetry) -> None:
        self.task, self.series, self.telemetry = task, series, telemetry
        self.channel, self.op, self.case, self.device = task.channel, task.op, task.case, task.device
        self.spent = {"build": 0.0, "warm-up": 0.0, "timed": 0.0}
        self._pass = pass_of(series["pass"])
        self._noted: set[tuple[str, str]] = set()

    def run(
        self,
        names: Sequence[str],
        sets: InputSets,
        spots: Sequence[SpotCheck],
        timing: TimingPlan,
    ) -> set[str]:
        """Time the ways in interleaved rounds; one that fails is named, the others start over without it."""
        left, failed = list(names), set()
        plan = Plan(
            seconds=timing["seconds"],
            least_rounds=timing["least"],
            least_seconds=timing["least_seconds"],
            precision=timing["precision"],
        )
        while left:
            try:
                self._rounds(left, sets, spots, plan)
                break
            except Failed as fault:
                left.remove(fault.impl)
                if not isinstance(fault.error, NotApplicable):
                    failed.add(fault.impl)
                self._report(fault)
        return failed

    def _rounds(self, names: list[str], sets: InputSets, spots: Sequence[SpotCheck], plan: Plan) -> None:
        assert self.series["timer"] is not None
        assert self.series["cache"] is not None
        timer = burst_timer(self.device, self.series["timer"], self.series["cache"])
        order = random.Random(self.task.seed)
        most_sets = self._affordable(sets)
        sets.grow_to(len(sets.contents))
        works = {name: self._work(name, sets, order) for name in names}
        for name in names if timer.limitation else ():
            self._note(name, f"its time may contain launches: {timer.limitation}")
        self.telemetry.forget()
        witness = Witness(self.op, spots, self.telemetry, seed=self.task.seed, note=self._note)
        rounds = Rounds(
            works,
            timer,
            plan,
            witness,
            running=lambda name: self._running(name, "time"),
            seed=self.task.seed,
            most_sets=most_sets,
        )
        with torch.no_grad(), guarded(self._to_all(names)):
            began = monotonic()
            for name in names:  # whatever is still to be built is built here, outside every sample
                with self._running(name, "build"):
                    self._built(works[name])
                    witness.refuse_replacing(works[name], timed=False)
            built = monotonic()
            taken: dict[str, list[float]] = {name: [] for name in names}
            for number, samples in enumerate(rounds):
                if number == 0:
                    warm = self.telemetry.now
                for name, times in samples.items():
                    taken[name] += times
                self.channel.send(
                    RoundTimed(
                        **self._series_fields(),
                        round=number,
                        samples_us={name: list(times) for name, times in samples.items()},
                        calls=dict(rounds.calls),
                    )
                )
            self.telemetry.sample(force=True)
            ended = monotonic()
            if timer.cache == "cold":
                usual = {name: quantile(times, 0.9) for name, times in taken.items()}
                self._on_unseen_inputs(timer, works, rounds.calls, sets, usual)
            floors = {calls: timer.floor_us(calls) for calls in set(rounds.calls.values())}
        self.spent["build"] += built - began
        self.spent["warm-up"] += rounds.warmup_s
        self.spent["timed"] += ended - built - rounds.warmup_s
        self.channel.send(
            SeriesTimed(
                **self._series_fields(),
                impls=names,
                looks=rounds.looks,
                decided=rounds.decided,
                precision=plan.precision,
                warmups=rounds.warmup_rounds,
                warmup_s=rounds.warmup_s,
                steady=rounds.steady,
                floor_us={name: floors[calls] for name, calls in rounds.calls.items()},
                telemetry=self.telemetry.columns(since=warm),
            )
        )

    def _series_fields(self) -> SeriesFields:
        return {"pass_name": self.series["pass"], "timer": self.series["timer"], "cache": self.series["cache"]}

    def _on_unseen_inputs(
        self,
        timer: BurstTimer,
        works: Mapping[str, TimedImpl],
        calls: Mapping[str, int],
        sets: InputSets,
        usual: Mapping[str, float],
    ) -> None:
        """A way that answers from a cache keyed by values is right, and fast, only on inputs it has met before.

        `usual` is what nine in ten of its samples are below: a way with slow moments is not one that remembers.
        """
        fresh: dict[str, list[float]] = {name: [] for name, work in works.items() if not work.restores_inputs}
        for attempt in range(_UNSEEN):
            for number in range(len(sets)):
                seed = self.task.seed + 7919 * (1 + number + attempt * len(sets))
                sets.overwrite(number, self._pass.inputs(self.op, self.case, seed, self.device))
            for name, times in fresh.items():
                with self._running(name, "time"):
                    times += timer.burst(works[name], BurstSpec(calls=calls[name])).samples_us
        sets.swap()
        for name, times in fresh.items():
            longer = min(times) / usual[name] if usual[name] > 0 else 1.0
            if longer > _CACHED:
                why = f"takes {longer:.2g} times as long on inputs it has not seen before: it remembers results"
                raise Failed(name, Wrong(why))

    def _work(self, name: str, sets: InputSets, order: random.Random) -> TimedImpl:
        impl = self.op[name]

        def prepare(inputs: Inputs) -> Callable[[], Any]:
            return self._pass.prepare(self.op, impl.fn, inputs, self.case)

        return TimedImpl(
            name,
            sets,
            prepare,
            order=order,
            restores_inputs=bool(impl.mutates),
            prepare_runs_impl=self._pass.name == "backward",
        )

    def _built(self, work: TimedImpl) -> None:
        first, second = (work.prepare_calls([0])[0]() for _ in range(2))
        synchronise(self.device)
        mine = _same_memory(first, tuple(work.sets[0].values()))
        if _same_memory(first, second) and not mine:
            self._note(work.name, "gives every result the same memory: whoever keeps one finds it changed by the next")
        if not mine and self._remembers(work, first):
            raise Wrong("answers a call on other inputs of the same values with an old result: it remembers results")
        del first, second
        call = work.prepare_calls([0])[0]
        memory = cast(MemoryJson, peak(call, self.device))
        pass_name, timer, cache = self.series["pass"], self.series["timer"], self.series["cache"]
        self.channel.send(MemoryMeasured(impl=work.name, pass_name=pass_name, timer=timer, cache=cache, memory=memory))

    def _remembers(self, work: TimedImpl, first: Any) -> bool:
        """Whether inputs elsewhere, given the values of set 0, get the very result that set 0 got."""
        sets = work.sets
        if len(sets.contents) < 2:
            return False
        other = work.prepare_calls([1])[0]()
        sets.overwrite(1, sets.contents[sets.content_of(0)])
        again = work.prepare_calls([1])[0]()
        sets.restore(1)
        return _same_memory(first, again) and not _same_memory(first, other)

    def _affordable(self, sets: InputSets) -> int:
        """How many input sets, each with a result of about its size, fit comfortably beside everything else."""
        fitting = int(_SHARE_FOR_SETS * free_bytes(self.device) / max(1, 2 * sets.bytes))
        fewest = len(sets.contents)  # neighbouring calls differ where there are two contents
        return max(fewest, min(1 + MOST_CALLS, fitting))

    @contextlib.contextmanager
    def _running(self, name: str, phase: str) -> Iterator[None]:
        with self.channel.running(name, phase), settings_guarded(self.task.noter(name)):
            try:
                yield
            except BaseException as error:  # SystemExit too: nothing a way raises may end the worker
                raise Failed(name, error) from error

    # Faults --------------------------------------------------------------------------------------------

    def _report(self, failed: Failed) -> None:
        error = failed.error
        found: dict[str, Any] = {"status": "error", "reason": f"while timing: {explain(error)}"}
        if isinstance(error, NotApplicable):
            found = {"status": "skipped", "reason": str(error)}
        elif isinstance(error, Wrong):
            found = {"status": "wrong", "reason": f"while timing: {error}"}
        elif is_memory_error(error):
            found = dict(out_of_memory(error, self.device))
        dead = gpu_is_dead(self.device)
        if dead:
            found = {"status": "crashed", "reason": f"while timing: GPU fault: {explain(error)}"}
        self.channel.send(
            ImplFailed(impl=failed.impl, phase="time", **self._series_fields(), **found, traceback=user_frames(error))
        )
        self.channel.send(SamplesDiscarded())
        if dead:
            raise GpuContextLost

    def _note(self, name: str, what: str) -> None:
        """Once is enough."""
        if (name, what) not in self._noted:
            self._noted.add((name, what))
            self.task.noter(name, "timing")(what)

    def _to_all(self, names: list[str]) -> Callable[[str], None]:
        """For what cannot be laid at one way's door."""

        def report(what: str) -> None:
            for name in names:
                self.task.noter(name)(f"while timing, {what}" if what.startswith("replaced") else what)

        return report
