"""The battery inside a worker: one op's ways, tried with one thing after another."""

from __future__ import annotations

import gc
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from kernellab.checking.battery import Battery, for_compile
from kernellab.checking.check import INTERPRETER_LIMIT
from kernellab.checking.examine import Examiner
from kernellab.checking.trial import Trial
from kernellab.checking.truth import YardstickDied, gpu_is_dead
from kernellab.declare import Op
from kernellab.running.channel import Channel, GpuGone
from kernellab.running.globalstate import guarded

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
        self.channel, self.op, self.device, self.interpreted = channel, op, device, interpreted
        self._examiner = Examiner(op, seed=seed, device=device, running=channel.running, distrusted=distrusted)

    def run(self, done: Mapping[str, int], *, dtypes: Sequence[str], quick: bool) -> None:
        """Trial by trial, so that ways share its truth; each from where it had got to."""
        most = INTERPRETER_LIMIT if self.interpreted else None
        trials = Battery(self.op, self.device.type, dtypes=dtypes, quick=quick, most=most).trials()
        few = {trial.key for trial in for_compile(trials)} if not quick else set()
        self.channel.send("battery", trials=len(trials))
        for number, trial in enumerate(trials):
            for name, start in done.items():
                compiled = self.op[name].kind.name == "compile"
                if number >= start and not (compiled and trial.key not in few):
                    self._try(name, number, trial)
            if number % 50 == 0:
                gc.collect()

    def _try(self, name: str, number: int, trial: Trial) -> None:
        told = {"number": number, "trial": {**trial.to_json(), "label": trial.label}}
        changed: list[str] = []
        try:
            with self.channel.running(name, "try", **told), guarded(changed.append):
                observed = self._examiner.examine(self.op[name], trial)
        except YardstickDied as died:
            self.channel.send("culprit", impl="torch", reason=f"GPU fault: {died}")
            raise GpuGone from None
        if observed is None:
            return
        dead = observed["status"] not in ("ok", "outside") and gpu_is_dead(self.device)
        if dead:
            observed = {"status": "crashed", "reason": f"GPU fault: {observed['reason']}"}
        if changed and observed["status"] == "ok":
            observed["notes"] = [*observed.get("notes", ()), *changed]
        kept: dict[str, Any] = {k: v for k, v in observed.items() if k in _TOLD}
        self.channel.send("trial", impl=name, interpreter=self.interpreted, **told, **kept)
        if dead:
            raise GpuGone
