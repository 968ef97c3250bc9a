"""An op's battery and searches: implementations are called with one trial after another."""

from __future__ import annotations

import copy
import functools
import gc
import itertools
from collections.abc import Mapping, Sequence
from typing import Any, cast

import torch

from kernellab.accuracy.oracle import YardstickDied, gpu_is_dead
from kernellab.base.user_code import explain
from kernellab.checking.confirmation import surely
from kernellab.checking.declared_case import INTERPRETER_LIMIT
from kernellab.checking.examiner import Examiner
from kernellab.declaration.case import Case
from kernellab.declaration.op import Op
from kernellab.record.battery_events import SearchFinished, TrialFinished
from kernellab.record.schema import TrialJson
from kernellab.running.protocol.commands import RunBattery, SearchTrials
from kernellab.running.protocol.events import BatteryGenerated, CulpritNamed, ScriptWritten
from kernellab.running.worker.channel import Channel, GpuContextLost
from kernellab.running.worker.global_state import guarded
from kernellab.trials.battery import Battery, defined, for_ways
from kernellab.trials.trial import Trial

_TOLD = ("status", "reason", "errors", "peer", "notes", "traceback")


class BatteryWork:
    def __init__(
        self,
        channel: Channel,
        op: Op,
        device: torch.device,
        seed: int,
        interpreted: bool,
        distrusted: frozenset[str],
    ) -> None:
        op = _announced(op, channel)
        self.channel, self.op, self.device, self.interpreted = channel, op, device, interpreted
        self._examiner = Examiner(op, seed=seed, device=device, running=channel.running, distrusted=distrusted)

    def run(self, command: RunBattery) -> None:
        """Trials that failed before, then the battery, trial by trial, so that implementations share the oracle.

        Each implementation starts at its number in `done`. Stored trials are numbered up to −1: the battery's own
        numbers do not depend on them.
        """
        done, stored, dtypes, quick = command.done, command.stored, command.dtypes, command.quick
        again = {name: self._again(name, stored.get(name, ()), start) for name, start in done.items()}
        most = INTERPRETER_LIMIT if self.interpreted else None
        trials = Battery(self.op, self.device.type, dtypes=dtypes, quick=quick, most=most).trials()
        self.channel.send(BatteryGenerated(trials=len(trials)))
        for tries, (number, trial, way) in enumerate(for_ways(trials, [self.op[name] for name in done])):
            if number >= done[way.name] and trial.key not in again[way.name]:
                self._try(way.name, number, trial)
            if tries % 250 == 0:
                gc.collect()

    def _again(self, name: str, stored: Sequence[TrialJson], start: int) -> set[str]:
        """Try what is stored; what the op's declaration no longer allows is left out."""
        tried = set()
        for number, data in enumerate(stored, start=-len(stored)):
            trial = Trial.from_json(data, self.op)
            if trial is not None and defined(self.op, trial.case):
                tried.add(trial.key)
                if number >= start:
                    self._try(name, number, trial)
        return tried

    def _try(self, name: str, number: int, trial: Trial) -> None:
        observed = surely(functools.partial(self._examined, name, "try", number), trial)
        if observed is not None:
            self._tell(name, number, trial, observed)

    def _examined(self, name: str, phase: str, number: int, trial: Trial) -> dict[str, Any] | None:
        """What came of a trial; whatever happens meanwhile is the way's doing, and this trial's."""
        changed: list[str] = []
        try:
            with self.channel.running(name, phase, number=number, trial=labelled(trial)), guarded(changed.append):
                observed = self._examiner.examine(self.op[name], trial)
        except YardstickDied as died:
            self.channel.send(CulpritNamed(impl="torch", reason=f"GPU fault: {died}"))
            raise GpuContextLost from None
        if observed is None:
            return None
        if observed["status"] not in ("ok", "outside") and gpu_is_dead(self.device):
            self._tell(name, number, trial, {"status": "crashed", "reason": f"GPU fault: {observed['reason']}"})
            raise GpuContextLost
        if changed and observed["status"] == "ok":
            observed["notes"] = [*observed.get("notes", ()), *changed]
        return observed

    def _tell(self, name: str, number: int, trial: Trial, observed: Mapping[str, Any]) -> None:
        kept: dict[str, Any] = {k: v for k, v in observed.items() if k in _TOLD}
        self.channel.send(
            TrialFinished(impl=name, interpreter=self.interpreted, number=number, trial=labelled(trial), **kept)
        )

    def search(self, command: SearchTrials) -> None:
        """Draw trials for an implementation until one fails or the time is up."""
        from kernellab.checking.search import INTERPRETED, find
        from kernellab.reproduction.script import script

        name, seconds, seed, dtypes = command.impl, command.seconds, command.seed, command.dtypes
        numbers = itertools.count(command.number)
        found = find(
            self.op,
            lambda trial: self._examined(name, "search", next(numbers), trial),
            seconds=seconds,
            seed=seed,
            device=self.device.type,
            dtypes=dtypes,
            most=INTERPRETED if self.interpreted else None,
        )
        told: dict[str, Any] = {"drawn": found.drawn, "outside": found.outside, "seconds": found.seconds}
        if found.trial is not None and found.observed is not None:
            self._tell(name, next(numbers), found.trial, found.observed)
            told["shrinking"] = found.shrinking
            try:
                failing = self.op, self.op[name], found.trial, found.observed
                made = script(*failing, seed=seed, interpreted=self.interpreted)
                told["script"] = made.lines
                self.channel.send(ScriptWritten(impl=name, text=made.text))
            except Exception as error:  # a failure without its script is a failure still
                told["script"] = [f"# no script: {explain(error)}"]
        self.channel.send(SearchFinished(impl=name, **told))


def labelled(trial: Trial) -> TrialJson:
    """A trial as JSON, with its label."""
    return cast(TrialJson, {**trial.to_json(), "label": trial.label})


def _announced(op: Op, channel: Channel) -> Op:
    """The op with a where= that says at which case it is asked: it may not come back."""
    asked = op.where
    if asked is None:
        return op

    def where(case: Case) -> bool:
        with channel.running(None, "where", trial=labelled(Trial("declared", case))):
            return asked(case)

    announced = copy.copy(op)
    announced.where = where
    return announced
