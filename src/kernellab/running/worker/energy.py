"""Measures the energy of implementations after their rounds, with the same inputs, guards and verification."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager

import torch

from kernellab.energy.blocks import Load, Poller
from kernellab.energy.counters import EnergyUnknown, counter_of
from kernellab.energy.documents import EnergyJson
from kernellab.energy.loads import load_of
from kernellab.energy.rounds import measure_energy, not_measured, to_json
from kernellab.machine.telemetry import Telemetry
from kernellab.running.worker.channel import device_id
from kernellab.running.worker.guards.timing_guard import TimingGuard
from kernellab.stats import trust
from kernellab.timing.timed_impl import TimedImpl
from kernellab.timing.timer import Burst

_BACKWARD = "every backward pass needs a forward pass before it, which takes energy too: --pass both measures the two"
_RESTORED = "it changes its inputs, and restoring them takes energy too"


class EnergyMeter:
    """`running` names the implementation that runs, as it does while timing."""

    def __init__(
        self,
        device: torch.device,
        telemetry: Telemetry,
        guard: TimingGuard,
        running: Callable[[str, str], AbstractContextManager[None]],
        seed: int,
    ) -> None:
        self._device, self._telemetry, self._guard, self._running = device, telemetry, guard, running
        self._seed = seed

    def measure(
        self, impls: Mapping[str, TimedImpl], call_us: Mapping[str, float], blocks: int
    ) -> dict[str, EnergyJson]:
        """The energy of each implementation, or why it is not measured. `call_us`: how long a call takes."""
        refused = {name: reason for name, impl in impls.items() if (reason := _obstacle(impl))}
        measurable = {name: impl for name, impl in impls.items() if name not in refused}
        if measurable:
            try:
                return {**self._measure(measurable, call_us, blocks), **_refusals(refused)}
            except EnergyUnknown as problem:
                refused |= dict.fromkeys(measurable, str(problem))
        return _refusals(refused)

    def _measure(
        self, impls: Mapping[str, TimedImpl], call_us: Mapping[str, float], blocks: int
    ) -> dict[str, EnergyJson]:
        counter = counter_of(device_id(self._device))
        self._telemetry.sample(force=True)
        began = self._telemetry.now

        def run_load(name: str, use: Callable[[Load], object]) -> None:
            problem = None
            with self._running(name, "energy"):
                load = load_of(impls[name], self._device, call_us[name], self._guard.verifier(impls[name]))
                try:
                    use(load)
                except EnergyUnknown as unknown:  # the counter's fault, not the implementation's
                    problem = unknown
                    load.finish()
                self._guard.judge(impls[name], Burst([call_us[name]], load.tail_us), timed=True)
            if problem is not None:
                raise problem

        measured = measure_energy(
            list(impls),
            Poller(counter),
            run_load,
            self._read_clock,
            rounds=blocks,
            seed=self._seed,
        )
        self._telemetry.sample(force=True)
        columns = self._telemetry.columns(since=began)
        reasons = trust.find_reasons(columns, [], device=self._device.type, steady=None, interval=None)
        contended = next((reason["detail"] for reason in reasons if reason["name"] == "contended"), None)
        return {
            name: to_json(measured, name, counter.name, impl.sets.bytes * len(impl.sets), contended)
            for name, impl in impls.items()
        }

    def _read_clock(self) -> float | None:
        reading = self._telemetry.sample(force=True) or {}
        mhz = reading.get("sm_mhz")
        return float(mhz) if isinstance(mhz, (int, float)) else None


def _obstacle(impl: TimedImpl) -> str | None:
    """Why the energy of calls in a row is not that of the calls alone."""
    if impl.prepare_runs_impl:
        return _BACKWARD
    return _RESTORED if impl.restores_inputs or impl.copies_inputs else None


def _refusals(reasons: Mapping[str, str]) -> dict[str, EnergyJson]:
    return {name: not_measured(reason) for name, reason in reasons.items()}
