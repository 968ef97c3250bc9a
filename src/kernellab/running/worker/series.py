"""Times one series: implementations of one op at one case, in one pass, with one timer and one state of the cache."""

from __future__ import annotations

import contextlib
import random
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import TypedDict, TypeVar

import torch

from kernellab.accuracy.outputs import Wrong
from kernellab.accuracy.spot_check import ResultForm
from kernellab.base.user_code import explain, user_frames
from kernellab.declaration.inputs import Inputs
from kernellab.declaration.passes import pass_of
from kernellab.machine.gpu_state import gpu_is_dead, synchronise
from kernellab.machine.memory import free_bytes, is_memory_error, out_of_memory, peak
from kernellab.machine.telemetry import Telemetry
from kernellab.record.result_events import (
    EnergyMeasured,
    ImplFailed,
    MemoryMeasured,
    RoundTimed,
    SamplesDiscarded,
    SeriesTimed,
)
from kernellab.record.schema import SeriesJson
from kernellab.record.settings import TimingPlan
from kernellab.running.worker.batches import BatchRunner
from kernellab.running.worker.channel import GpuContextLost
from kernellab.running.worker.energy import EnergyMeter
from kernellab.running.worker.guards.global_state import guard_global_state, guard_settings
from kernellab.running.worker.guards.result_judge import BatchSample, ResultJudge
from kernellab.running.worker.guards.timing_guard import TimingGuard
from kernellab.running.worker.guards.value_caches import refuse_old_results, refuse_slow_on_new_inputs
from kernellab.running.worker.task import Task
from kernellab.timing.input_sets import InputSets
from kernellab.timing.rounds import MOST_CALLS, Plan, Rounds
from kernellab.timing.timed_impl import Call, TimedImpl
from kernellab.timing.timer import BurstChanged, BurstSpec, BurstTimer, NotApplicable
from kernellab.timing.timers import burst_timer
from kernellab.timing.window import refuse_tracing

_Samples = TypeVar("_Samples")
_MEMORY_SHARE = 0.25  # of the free memory, for the input sets and the results of one window


class SeriesFields(TypedDict):
    """A series as events carry it."""

    pass_name: str
    timer: str | None
    cache: str | None


@dataclass(frozen=True)
class _Fault:
    """How an implementation failed, as events carry it."""

    status: str
    reason: str
    needed_bytes: int | None = None


class ImplFault(Exception):
    """An implementation failed while it was timed; `error` is what it raised."""

    def __init__(self, impl: str, error: BaseException) -> None:
        super().__init__(impl)
        self.impl, self.error = impl, error


class ImplFaults(Exception):
    """Implementations whose results turned out to be wrong when the series had ended."""

    def __init__(self, faults: Sequence[ImplFault]) -> None:
        super().__init__(", ".join(fault.impl for fault in faults))
        self.faults = faults


class Disturbed(Exception):
    """Some implementation changed what the others use, and it is not known which one did."""


class SeriesRunner:
    """Times one series and sends its rounds. `spent`: seconds by phase."""

    def __init__(self, task: Task, series: SeriesJson, telemetry: Telemetry, judge: ResultJudge) -> None:
        self.task, self.series, self.telemetry, self._judge = task, series, telemetry, judge
        self.channel, self.op, self.case, self.device = task.channel, task.op, task.case, task.device
        self.spent = {"build": 0.0, "warm-up": 0.0, "timed": 0.0}
        self._pass = pass_of(series["pass"])
        self._noted: set[tuple[str, str]] = set()
        self._find_replaced: Callable[[], list[str]] = _nothing  # asked after every burst, once something was replaced

    def run(
        self,
        names: Sequence[str],
        sets: InputSets,
        form: ResultForm | None,
        timing: TimingPlan,
        *,
        energy_blocks: int = 0,
    ) -> set[str]:
        """Time implementations in interleaved rounds; the names of those that failed.

        When one fails, its fault is sent and the others start over without it. One that the timer cannot time is
        left out too, but has not failed.
        """
        remaining, failed = list(names), set()
        plan = Plan(
            seconds=timing["seconds"],
            least_rounds=timing["least"],
            least_seconds=timing["least_seconds"],
            precision=timing["precision"],
        )
        strict = False
        while remaining:
            try:
                self._run_rounds(remaining, sets, form, plan, strict=strict, energy_blocks=energy_blocks)
                break
            except Disturbed:
                strict = True
                self.channel.send(SamplesDiscarded())
            except (ImplFault, ImplFaults) as error:
                for fault in error.faults if isinstance(error, ImplFaults) else [error]:
                    remaining.remove(fault.impl)
                    if not isinstance(fault.error, NotApplicable):
                        failed.add(fault.impl)
                    self._report(fault)
        return failed

    def _run_rounds(
        self,
        names: list[str],
        sets: InputSets,
        form: ResultForm | None,
        plan: Plan,
        *,
        strict: bool,
        energy_blocks: int,
    ) -> None:
        assert self.series["timer"] is not None
        assert self.series["cache"] is not None
        timer = burst_timer(self.device, self.series["timer"], self.series["cache"])
        order = random.Random(self.task.seed)
        most_sets = self._affordable_sets(sets)
        sets.grow_to(len(sets.contents))
        sets.contents_intact()  # from now on
        impls = {name: self._timed_impl(name, sets, order) for name in names}
        for name in names if timer.limitation else ():
            self._note(name, f"its time may include launches: {timer.limitation}")
        self.telemetry.forget()
        guard = TimingGuard(
            self.op,
            form,
            self.telemetry,
            integrity=self.task.integrity,
            objects=(timer, sets, self.channel, *impls.values()),
            seed=self.task.seed,
            note=self._note,
            strict=strict,
        )
        rounds = Rounds(
            impls,
            timer,
            plan,
            guard,
            running=lambda name: self._running(name, "time"),
            seed=self.task.seed,
            most_sets=most_sets,
        )
        find_replaced = self._watch(rounds, (timer, sets, guard, rounds, self.channel, *impls.values()))
        self._find_replaced = find_replaced if strict else _nothing
        with torch.no_grad(), self._guard_state(names):
            began = monotonic()
            for name in names:  # what has not been built yet is built here, outside every sample
                with self._running(name, "build"):
                    self._prepare_impl(impls[name])
                    guard.refuse_replaced_functions(impls[name], timed=False)
                    if strict:
                        self._refuse_overridden_operators()
            built = monotonic()
            samples_us: dict[str, list[float]] = {name: [] for name in names}
            for number, round_us in enumerate(rounds):
                if number == 0:
                    warm = self.telemetry.now
                for name, times_us in round_us.items():
                    samples_us[name] += times_us
                self.channel.send(
                    RoundTimed(
                        **self._series_fields(),
                        round=number,
                        samples_us={name: list(times_us) for name, times_us in round_us.items()},
                        calls=dict(rounds.calls),
                        before=rounds.before,
                        clocks_mhz=rounds.clocks_mhz if self.device.type == "cuda" else None,
                    )
                )
            self.telemetry.sample(force=True)
            columns = self.telemetry.columns(since=warm)
            ended = monotonic()
            floors = {calls: timer.floor_us(calls) for calls in set(rounds.calls.values())}
            guard.check_functions_finally()
            self._refuse_disturbance(guard, sets, find_replaced, strict=strict)
            self._sample_all(timer, impls, guard)
            self._refuse(self._judge.judge_rounds(self._comparable(guard.samples), self._note))
            self._refuse_caches(timer, impls, rounds, form, samples_us)
            batches = self._run_batches(rounds, samples_us) if timer.is_duration else {}
            guard.check_functions_finally()
            if energy_blocks:
                self._measure_energy(impls, samples_us, guard, energy_blocks)
                self._refuse_disturbance(guard, sets, find_replaced, strict=strict)
        self._refuse(self._judge.judge_batches(self._comparable(batches if form is not None else {}), self._note))
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
                telemetry=columns,
            )
        )

    def _refuse_disturbance(
        self, guard: TimingGuard, sets: InputSets, find_replaced: Callable[[], list[str]], *, strict: bool
    ) -> None:
        """Start over, strictly, if some implementation changed what the others use."""
        overridden = self.task.integrity.operators.restore()
        if (find_replaced() or overridden or guard.disturbed or not sets.contents_intact()) and not strict:
            sets.remake_contents()
            raise Disturbed

    def _measure_energy(
        self, impls: Mapping[str, TimedImpl], samples_us: Mapping[str, list[float]], guard: TimingGuard, blocks: int
    ) -> None:
        """The energy of each implementation. The results of its calls are judged as those of the rounds are."""
        guard.samples.clear()
        began = monotonic()
        meter = EnergyMeter(self.device, self.telemetry, guard, self._running, self.task.seed)
        call_us = {name: statistics.median(times_us) for name, times_us in samples_us.items()}
        energy = meter.measure(impls, call_us, blocks)
        self.spent["energy"] = monotonic() - began
        guard.check_functions_finally()
        self._refuse(self._judge.judge_rounds(self._comparable(guard.samples), self._note))
        self.channel.send(EnergyMeasured(**self._series_fields(), energy=energy))

    def _watch(self, rounds: Rounds, objects: Sequence[object]) -> Callable[[], list[str]]:
        """A function that undoes replacements in kernellab's own code and objects, and names what was replaced."""
        parts = {name: getattr(rounds, name) for name in ("timer", "guard", "impls", "plan", "running")}

        def find_replaced() -> list[str]:
            replaced = self.task.integrity.restore(*objects)
            for name, part in parts.items():
                if getattr(rounds, name) is not part:
                    setattr(rounds, name, part)
                    replaced.append(f"{Rounds.__module__}.{Rounds.__qualname__}.{name}")
            return replaced

        return find_replaced

    def _refuse_overridden_operators(self) -> None:
        overridden = self.task.integrity.operators.restore()
        if overridden:
            raise Wrong(f"overrode torch's operator {overridden[0]}")

    def _sample_all(self, timer: BurstTimer, impls: Mapping[str, TimedImpl], guard: TimingGuard) -> None:
        """One more burst of each implementation without samples: they are forgotten when an input was changed."""
        for name, impl in impls.items():
            if name not in guard.samples:
                with self._running(name, "time"):
                    guard.judge(impl, timer.burst(impl, BurstSpec(calls=1, verify=guard.verifier(impl))), timed=False)

    def _run_batches(self, rounds: Rounds, samples_us: Mapping[str, list[float]]) -> dict[str, list[BatchSample]]:
        """The batches that the parent times; a sampled result of each."""
        runner = BatchRunner(
            self.channel, self.op, self.series, rounds, self._make_inputs, lambda name: self._running(name, "time")
        )
        return {name: runner.run(name, statistics.median(times_us)) for name, times_us in samples_us.items()}

    def _make_inputs(self, seed: int) -> Inputs:
        return self._pass.inputs(self.op, self.case, seed, self.device)

    def _comparable(self, samples: Mapping[str, _Samples]) -> dict[str, _Samples]:
        """Without those of implementations that draw their own random numbers: no values can be expected of them."""
        for name in samples:
            if self.op[name].random:
                self._note(name, "its values are not compared while timing: it draws its own random numbers")
        return {name: sampled for name, sampled in samples.items() if not self.op[name].random}

    def _refuse(self, wrongs: Mapping[str, Wrong]) -> None:
        if wrongs:
            raise ImplFaults([ImplFault(name, wrong) for name, wrong in wrongs.items()])

    def _refuse_caches(
        self,
        timer: BurstTimer,
        impls: Mapping[str, TimedImpl],
        rounds: Rounds,
        form: ResultForm | None,
        samples_us: Mapping[str, list[float]],
    ) -> None:
        """All that cache results are refused together: the others start over once."""
        faults = []
        for name, impl in impls.items():
            try:
                with self._running(name, "time"):
                    self._refuse_cached_results(timer, impl, rounds.calls[name], form, samples_us[name])
            except ImplFault as fault:
                if not isinstance(fault.error, Wrong):  # it may have harmed what the next ones use
                    raise
                faults.append(fault)
        if faults:
            raise ImplFaults(faults)

    def _refuse_cached_results(
        self, timer: BurstTimer, impl: TimedImpl, calls: int, form: ResultForm | None, samples_us: list[float]
    ) -> None:
        if form is not None and not self.op[impl.name].random:

            def reference(content: Inputs) -> object:
                return self._pass.prepare(self.op, self.op.reference, content, self.case)()

            allowing = form.allowing(self._judge.checked_errors.get(impl.name, 0.0))
            refuse_old_results(self.op, impl, allowing, reference, self._make_inputs)
        if timer.cache == "cold":
            refuse_slow_on_new_inputs(timer, impl, calls, statistics.median(samples_us), self._make_inputs)

    def _series_fields(self) -> SeriesFields:
        return {"pass_name": self.series["pass"], "timer": self.series["timer"], "cache": self.series["cache"]}

    def _timed_impl(self, name: str, sets: InputSets, order: random.Random) -> TimedImpl:
        impl = self.op[name]

        def prepare(inputs: Inputs) -> Call:
            return self._pass.prepare(self.op, impl.fn, inputs, self.case, mutates=impl.changed_inputs)

        return TimedImpl(
            name,
            sets,
            prepare,
            order=order,
            restores_inputs=bool(impl.mutates),
            copies_inputs=impl.clone,
            prepare_runs_impl=self._pass.name == "backward",
        )

    def _prepare_impl(self, impl: TimedImpl) -> None:
        """Call an implementation until everything is built, check the memory of its results, and measure its peak."""
        first, second = (impl.prepare_calls([0])[0]() for _ in range(2))
        synchronise(self.device)
        returns_input = _share_memory(first, tuple(impl.sets[0].values()))
        if _share_memory(first, second) and not returns_input:
            self._note(impl.name, "returns every result in the same memory: the next call overwrites the one before")
        if not returns_input and self._returns_cached_result(impl, first):
            raise Wrong("returns an old result for other inputs with the same values: it caches results")
        del first, second
        memory = peak(impl.prepare_calls([0])[0], self.device)
        self.channel.send(MemoryMeasured(impl=impl.name, **self._series_fields(), memory=memory))

    def _returns_cached_result(self, impl: TimedImpl, first: object) -> bool:
        """Whether set 1, given the values of set 0, gets the very result that set 0 got (`first`)."""
        sets = impl.sets
        if len(sets.contents) < 2:
            return False
        for_other_values = impl.prepare_calls([1])[0]()
        sets.overwrite(1, sets.contents[sets.content_of(0)])
        for_same_values = impl.prepare_calls([1])[0]()
        sets.restore(1)
        return _share_memory(first, for_same_values) and not _share_memory(first, for_other_values)

    def _affordable_sets(self, sets: InputSets) -> int:
        """How many input sets fit into the memory set aside for them, each with a result of about its size."""
        fitting = int(_MEMORY_SHARE * free_bytes(self.device) / max(1, 2 * sets.bytes))
        fewest = len(sets.contents)  # with two contents, consecutive calls get different ones
        return max(fewest, min(1 + MOST_CALLS, fitting))

    @contextlib.contextmanager
    def _running(self, name: str, phase: str) -> Iterator[None]:
        with self.channel.running(name, phase), guard_settings(self.task.noter(name)):
            try:
                yield
                refuse_tracing()
            except BaseException as error:  # SystemExit too: an implementation must not end the worker
                raise ImplFault(name, error) from error
            finally:
                replaced = self._find_replaced()
            if replaced:
                raise ImplFault(name, Wrong(f"replaced {replaced[0]}"))

    # Faults --------------------------------------------------------------------------------------------

    def _report(self, fault: ImplFault) -> None:
        """Send the fault, and void the samples of this series: the others were interleaved with the culprit."""
        dead = gpu_is_dead(self.device)
        described = self._describe(fault.error)
        if dead:
            described = _Fault("crashed", f"while timing: GPU fault: {explain(fault.error)}")
        self.channel.send(
            ImplFailed(
                impl=fault.impl,
                phase="time",
                **self._series_fields(),
                status=described.status,
                reason=described.reason,
                needed_bytes=described.needed_bytes,
                traceback=user_frames(fault.error),
            )
        )
        self.channel.send(SamplesDiscarded())
        if dead:
            raise GpuContextLost

    def _describe(self, error: BaseException) -> _Fault:
        if isinstance(error, NotApplicable):
            return _Fault("skipped", str(error))
        if isinstance(error, (Wrong, BurstChanged)):
            return _Fault("wrong", f"while timing: {error}")
        if is_memory_error(error):
            outcome = out_of_memory(error, self.device)
            return _Fault(outcome["status"], outcome["reason"], outcome.get("needed_bytes"))
        return _Fault("error", f"while timing: {explain(error)}")

    def _note(self, name: str, text: str) -> None:
        """Send a note about an implementation, unless the same note was sent before."""
        if (name, text) not in self._noted:
            self._noted.add((name, text))
            self.task.noter(name, "timing")(text)

    def _guard_state(self, names: list[str]) -> contextlib.AbstractContextManager[None]:
        may_draw = any(self.op[name].random for name in names)
        return guard_global_state(self._report_to_all(names), may_draw=may_draw)

    def _report_to_all(self, names: list[str]) -> Callable[[str], None]:
        """Notes a change of global state for every implementation, because any of them may have made it."""

        def report(change: str) -> None:
            for name in names:
                self.task.noter(name)(f"while timing, {change}" if change.startswith("replaced") else change)

        return report


def _nothing() -> list[str]:
    return []


def _share_memory(a: object, b: object) -> bool:
    """Whether a tensor of one result and a tensor of the other have the same storage."""
    return bool(_storages(a) & _storages(b))


def _storages(result: object) -> set[int]:
    items = result if isinstance(result, (tuple, list)) else (result,)
    return {item.untyped_storage().data_ptr() for item in items if isinstance(item, torch.Tensor) and item.numel() > 0}
