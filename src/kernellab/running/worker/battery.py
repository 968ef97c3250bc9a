"""Runs an op's battery and searches: calls implementations with one trial after another."""

from __future__ import annotations

import copy
import functools
import gc
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch

from kernellab.accuracy.prepared_trial import PeerDied
from kernellab.accuracy.vault import Vault
from kernellab.base.user_code import explain
from kernellab.checking.call_variants import applies
from kernellab.checking.confirmation import examine_and_confirm
from kernellab.checking.declared_case import INTERPRETER_LIMIT
from kernellab.checking.examiner import Examiner
from kernellab.checking.outcome import Outcome
from kernellab.declaration.case import Case
from kernellab.declaration.op import Op
from kernellab.machine.gpu_state import gpu_is_dead
from kernellab.record.battery_events import SearchFinished, TrialFinished
from kernellab.record.schema import TrialJson
from kernellab.record.statuses import RIGHT
from kernellab.running.protocol.commands import RunBattery, SearchTrials
from kernellab.running.protocol.events import BatteryGenerated, CulpritNamed, ScriptWritten
from kernellab.running.worker.channel import Channel, GpuContextLost
from kernellab.running.worker.guards.global_state import guard_global_state
from kernellab.running.worker.guards.integrity import Integrity
from kernellab.trials.battery import impl_batteries
from kernellab.trials.domain import is_defined
from kernellab.trials.selection import pair_with_impls
from kernellab.trials.trial import Trial
from kernellab.trials.trial_inputs import allowed_inputs


class BatteryRunner:
    """Runs trials of one op in this worker and sends their outcomes."""

    def __init__(
        self,
        channel: Channel,
        op: Op,
        device: torch.device,
        seed: int,
        interpreted: bool,
        distrusted: frozenset[str],
        integrity: Integrity,
        distrusted_at: Sequence[TrialJson] = (),
    ) -> None:
        """`distrusted` are not used as the peer; at the trials in `distrusted_at`, PyTorch's own op is not."""
        op = _announce_where(op, channel)
        self.channel, self.op, self.device, self.interpreted = channel, op, device, interpreted
        self._integrity = integrity
        new_examiner = functools.partial(
            Examiner, op, seed=seed, device=device, running=channel.running, vault=Vault(channel.keeper)
        )
        self._examiner = new_examiner(distrusted=distrusted)
        self._examiner_without_torch = new_examiner(distrusted=distrusted | {"torch"})
        trials = (Trial.from_json(data, op) for data in distrusted_at)
        self._stopped: Mapping[str, str] = {}
        self._distrusted_at = {trial.preparation_key for trial in trials if trial is not None}

    def run(self, command: RunBattery) -> None:
        """Run the trials that failed before, then the battery, trial by trial: the implementations share the oracle.

        Each implementation starts at its number in `done`. Stored trials have negative numbers, so that the
        numbers of the battery do not depend on them. Trials of an implementation that is stopped are only counted.
        """
        self._stopped = command.stopped
        done, stored, dtypes, quick = command.done, command.stored, command.dtypes, command.quick
        repeated = {name: self._run_stored(name, stored.get(name, ()), start) for name, start in done.items()}
        limit = INTERPRETER_LIMIT if self.interpreted else None
        impls = [self.op[name] for name in done]
        trials = impl_batteries(self.op, impls, self.device.type, dtypes=dtypes, quick=quick, max_elements=limit)
        pairs = list(pair_with_impls(trials, impls))
        self.channel.send(BatteryGenerated(trials=max((number + 1 for number, _, _ in pairs), default=0)))
        for count, (number, trial, impl) in enumerate(pairs, start=1):
            if number >= done[impl.name] and trial.key not in repeated[impl.name]:
                self._run_trial(impl.name, number, trial)
            if count % 250 == 0:
                gc.collect()

    def _run_stored(self, name: str, stored: Sequence[TrialJson], start: int) -> set[str]:
        """Run the stored trials that the declaration still allows; the keys of those trials, run now or before."""
        keys = set()
        for number, data in enumerate(stored, start=-len(stored)):
            trial = Trial.from_json(data, self.op)
            if trial is not None and is_defined(self.op, trial.case) and allowed_inputs(self.op, trial):
                keys.add(trial.key)
                if number >= start:
                    self._run_trial(name, number, trial)
        return keys

    def _run_trial(self, name: str, number: int, trial: Trial) -> None:
        if name in self._stopped:
            if applies(trial.call, self.op[name], self.device):
                self._send_outcome(name, number, trial, Outcome("unknown", self._stopped[name]))
            return
        outcome = examine_and_confirm(functools.partial(self._examine, name, "try", number), trial)
        if outcome is not None:
            self._send_outcome(name, number, trial, outcome)

    def _examine(self, name: str, phase: str, number: int, trial: Trial) -> Outcome | None:
        """The outcome of a trial. If the worker dies meanwhile, the implementation and this trial are the culprit."""
        if self._integrity.load_problem is not None:
            return Outcome("wrong", self._integrity.load_problem)
        changes: list[str] = []
        try:
            with (
                self.channel.running(name, phase, number=number, trial=trial.to_labelled_json()),
                guard_global_state(changes.append, may_draw=self.op[name].random),
            ):
                distrusted = trial.preparation_key in self._distrusted_at
                examiner = self._examiner_without_torch if distrusted else self._examiner
                outcome = examiner.examine(self.op[name], trial)
        except PeerDied as died:
            self.channel.send(CulpritNamed(impl="torch", reason=f"GPU fault: {died}"))
            raise GpuContextLost from None
        if outcome is None:
            return None
        if outcome.status not in (*RIGHT, "outside") and gpu_is_dead(self.device):
            self._send_outcome(name, number, trial, Outcome("crashed", f"GPU fault: {outcome.reason}"))
            raise GpuContextLost
        replaced = self._integrity.restore(self.channel)
        if replaced and outcome.status in RIGHT:
            return Outcome("wrong", f"replaced {replaced[0]}")
        return outcome.with_notes(changes) if outcome.status in RIGHT else outcome

    def _send_outcome(self, name: str, number: int, trial: Trial, outcome: Outcome) -> None:
        entry = outcome.at_trial(op="", impl=name, number=number, trial=trial, interpreted=self.interpreted)
        self.channel.send(TrialFinished(**entry))

    def search(self, command: SearchTrials) -> None:
        """Draw trials for an implementation until one fails or the time is up."""
        from kernellab.checking.search import search
        from kernellab.reproduction.script import write_script
        from kernellab.trials.random_trials import INTERPRETER_MAX_ELEMENTS

        name, seconds, seed, dtypes = command.impl, command.seconds, command.seed, command.dtypes
        numbers = itertools.count(command.number)
        result = search(
            self.op,
            lambda trial: self._examine(name, "search", next(numbers), trial),
            seconds=seconds,
            seed=seed,
            device=self.device.type,
            impl=self.op[name],
            dtypes=dtypes,
            max_elements=INTERPRETER_MAX_ELEMENTS if self.interpreted else None,
        )
        finished = SearchFinished(impl=name, drawn=result.drawn, outside=result.outside, seconds=result.seconds)
        if result.failure is not None:
            trial, outcome = result.failure.trial, result.failure.outcome
            self._send_outcome(name, next(numbers), trial, outcome)
            try:
                impl = self.op[name]
                script = write_script(self.op, impl, trial, outcome, seed=seed, interpreted=self.interpreted)
                lines = script.lines
                self.channel.send(ScriptWritten(impl=name, text=script.text))
            except Exception as error:  # the failure is reported without a script
                lines = [f"# no script: {explain(error)}"]
            finished = replace(finished, shrinking=result.shrinking, script=lines)
        self.channel.send(finished)


def _announce_where(op: Op, channel: Channel) -> Op:
    """A copy of the op whose where= reports each case before it runs: it may crash or hang."""
    original = op.where
    if original is None:
        return op

    def where(case: Case) -> bool:
        with channel.running(None, "where", trial=Trial("declared", case).to_labelled_json()):
            return original(case)

    announced = copy.copy(op)
    announced.where = where
    return announced
