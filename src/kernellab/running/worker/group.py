"""One op at one case: its implementations are checked, and the right ones timed."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable, Iterator
from dataclasses import replace
from time import monotonic
from typing import Any

import torch

from kernellab.accuracy.prepared_trial import CannotCheck, PeerDied, TrialPreparer
from kernellab.accuracy.spot_check import SpotCheck
from kernellab.activity.autotuning import record_choices
from kernellab.activity.compilation import CompilationLog
from kernellab.activity.documents import TunedJson
from kernellab.checking.compiled_impls import reset_compiled
from kernellab.checking.declared_case import CaseChecker
from kernellab.checking.outcome import CaseOutcome
from kernellab.declaration import inputs as make_inputs
from kernellab.declaration.cost import CostFailed, cost_of_pass
from kernellab.declaration.documents import CostJson
from kernellab.declaration.passes import Pass, pass_of
from kernellab.machine.gpu_state import gpu_is_dead
from kernellab.machine.telemetry import Telemetry
from kernellab.record.result_events import CostCounted, ImplBuilt, ImplChecked, TimeSpent
from kernellab.record.schema import BuiltJson
from kernellab.running.protocol.commands import SeriesRequest
from kernellab.running.protocol.events import CulpritNamed, SeriesBegun
from kernellab.running.worker.channel import GpuContextLost
from kernellab.running.worker.global_state import guarded
from kernellab.running.worker.series import SeriesWork
from kernellab.running.worker.task import Task
from kernellab.timing.input_sets import InputSets
from kernellab.trials.trial import Trial

RECOMPILE_LIMIT = 64  # a check goes through every option value; a way that recompiles per call still hits it
_OTHER_CONTENT = 1_000_003  # added to the seed for the second content of the inputs


class GroupWork:
    def __init__(
        self,
        task: Task,
        interpreted: bool,
        distrusted: frozenset[str],
        telemetry: Telemetry,
        most: int | None = None,
    ) -> None:
        """`most`: elements of a checked case's inputs; what is timed is checked as it is."""
        self.task, self.telemetry, self._most = task, telemetry, most
        self.channel, self.op, self.case, self.device = task.channel, task.op, task.case, task.device
        self.interpreted, self._distrusted = interpreted, distrusted
        telemetry.sample(force=True)
        self._checkers: dict[str, CaseChecker] = {}
        self._log = CompilationLog.installed()
        self._began = monotonic()
        self._spent: dict[str, float] = {}
        reset_compiled(task.op)

    def close(self) -> None:
        """Say where the time went, and give the memory back before the next case."""
        self.channel.send(TimeSpent(seconds={**self._spent, "all": monotonic() - self._began}))
        self._checkers.clear()
        gc.collect()
        if self.device.type == "cuda":
            torch.cuda.empty_cache()

    # Right? --------------------------------------------------------------------------------------------

    def check(self, names: list[str], of: str) -> set[str]:
        """Check a pass of each way, send what was observed, and return the names of those that are right."""
        right = set()
        for name in names:
            outcome = self._check(name, of)
            dead = outcome.status not in ("ok", "skipped") and gpu_is_dead(self.device)
            if dead:
                outcome = replace(outcome, status="crashed", reason=f"GPU fault: {outcome.reason}")
            self.channel.send(ImplChecked(impl=name, check=outcome.to_json(), pass_name=of))
            if dead:
                raise GpuContextLost
            if outcome.status == "ok":
                right.add(name)
        return right

    def _check(self, name: str, of: str) -> CaseOutcome:
        mark = self._log.mark()
        try:
            self.telemetry.sample()
            phase = "check" if of == "forward" else "gradients"
            with self.channel.running(name, phase), guarded(self.task.noter(name)), record_choices() as choices:
                outcome = self._checker(of).check(self.op[name])
                gc.collect(1)  # what the way left to the collector: a __del__ that hangs is still its own doing
        except PeerDied as died:
            self.channel.send(CulpritNamed(impl="torch", reason=f"GPU fault: {died}"))
            raise GpuContextLost from None
        self._say_what_was_built(name, mark, choices)
        return outcome

    def _checker(self, of: str) -> CaseChecker:
        if of not in self._checkers:
            self._checkers[of] = CaseChecker(
                self.op,
                self.case,
                seed=self.task.seed,
                device=self.device,
                interpreted=self.interpreted,
                max_elements=self._most,
                running=self._running,
                distrusted=self._distrusted,
                pass_=pass_of(of),
            )
        return self._checkers[of]

    @contextlib.contextmanager
    def _running(self, impl: str | None, phase: str) -> Iterator[None]:
        """Around the yardstick in the middle of another way's check: what it changes is not the other's doing."""
        guard = contextlib.nullcontext() if impl is None else guarded(lambda _: None)  # its own check will tell
        with self.channel.running(impl, phase), guard:
            yield

    def _say_what_was_built(self, name: str, mark: int, choices: list[TunedJson]) -> None:
        """What torch.compile and the autotuners did for a way: nobody should have to guess."""
        events = [event for event in self._log.since(mark) if not event.nested]
        if events or choices:
            built: BuiltJson = {
                "seconds": sum(event.seconds for event in events),
                "tuned": choices,
            }
            if any(event.kind == "compile" for event in events):
                built["compile"] = self._log.compile_summary(mark)
            self.channel.send(ImplBuilt(impl=name, built=built))

    # How fast? -----------------------------------------------------------------------------------------

    def time(self, todo: list[SeriesRequest], right: Callable[[str, str], bool]) -> None:
        """Time each series of ways; `right(name, pass)` says who may be. One that fails is left out of the rest."""
        failed: set[str] = set()
        sets: dict[str, tuple[InputSets, list[SpotCheck]]] = {}
        for work in todo:
            series, of = work["series"], work["series"]["pass"]
            names = [n for n in work["impls"] if right(n, of) and n not in failed]
            if not names:
                continue
            self.channel.send(SeriesBegun(pass_name=series["pass"], timer=series["timer"], cache=series["cache"]))
            for name in names:
                if of != "forward" and self.op[name].grad_in_forward:
                    self.task.noter(name, "pass")("makes its gradients in the forward pass: compare both together")
            if of not in sets:
                sets.clear()
                sets[of] = self._input_sets(of, names)
                cost = self._cost(of, sets[of][0].contents[0], names)
                self.channel.send(CostCounted(cost=cost, pass_name=of))
            timed = SeriesWork(self.task, series, self.telemetry)
            failed |= timed.run(names, *sets[of], work["timing"])
            for what, seconds in timed.spent.items():
                self._spent[what] = self._spent.get(what, 0.0) + seconds

    def _input_sets(self, of: str, names: list[str]) -> tuple[InputSets, list[SpotCheck]]:
        """Two contents for the inputs with what must come of them; one, where two cannot be had."""
        timed = pass_of(of)
        judged = pass_of("backward") if of == "both" else timed  # a timed call of both returns its gradients
        masters: list[make_inputs.Inputs] = []
        spots: list[SpotCheck] = []
        for content, seed in enumerate((self.task.seed, self.task.seed + _OTHER_CONTENT)):
            if content and not InputSets(masters).fits(self.device, copies=4):
                for name in names:
                    self.task.noter(name, "inputs")("timed with one content of its inputs: no room for another")
                break
            try:
                with self.channel.running(None, "oracle"):
                    spots.append(self._spot(judged, seed))
                    masters.append(timed.inputs(self.op, self.case, seed, self.device))
            except (CannotCheck, torch.OutOfMemoryError) as cannot:
                if content == 0:
                    masters.append(timed.inputs(self.op, self.case, seed, self.device))
                for name in names:
                    self.task.noter(name, "inputs")(f"timed without changing its inputs' contents: {cannot}")
                break
        self._checkers.clear()  # timing needs the memory
        return InputSets(masters), spots

    def _spot(self, of: Pass, seed: int) -> SpotCheck:
        if seed == self.task.seed:
            prepared = self._checker(of.name).prepare()
        else:
            preparer = TrialPreparer(
                self.op,
                seed=seed,
                device=self.device,
                running=self._running,
                distrusted=self._distrusted,
            )
            prepared = preparer.prepare(Trial("declared", self.case, pass_name=of.name))
        return SpotCheck(prepared, rowwise=bool(self.op.reduces), generator=torch.Generator().manual_seed(seed))

    def _cost(self, of: str, inputs: make_inputs.Inputs, names: list[str]) -> CostJson | None:
        """The cost of a pass; None, with a note, where the op's own cost= fails."""
        try:
            with self.channel.running(None, "cost"):
                return cost_of_pass(self.op, of, inputs, self.case)
        except CostFailed as failure:
            for name in names:
                self.task.noter(name, "cost")(f"the limit is not known: {failure}")
            return None


def limit_recompiling(config: Any) -> None:
    """Going back to eager code without a word, as torch does at its limit of 8, would be timed as compiled code."""
    config.recompile_limit = RECOMPILE_LIMIT
    config.fail_on_recompile_limit_hit = True
