"""A worker slot: the place of one target in one kind of worker. A lost worker is replaced when next needed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import cast

from kernellab.base.errors import UserError
from kernellab.declaration.targets import Target, resolve
from kernellab.record.event import Event
from kernellab.record.result_events import PhaseBegun, PhaseEnded
from kernellab.record.settings import Settings
from kernellab.running.processes.worker_process import WorkerDied, WorkerProcess, WorkerSilent
from kernellab.running.processes.worker_template import WorkerTemplate
from kernellab.running.protocol.commands import ChooseDevice, Command, LoadTarget, ReleaseKey, TargetJson
from kernellab.running.protocol.events import (
    CommandDone,
    DeviceChosen,
    KeyAsked,
    KeyKept,
    OpLoaded,
    RequestRefused,
    WaitBegun,
    WorkerBroken,
    WorkerSpent,
)

_START_TIMEOUT_S = 180.0  # importing torch on a busy machine
# The oracle and the op's own functions get this many timeouts: float64 is slow, and loading a file may compile code.
_REFERENCE_TIMEOUTS = 5
_IDLE_TIMEOUT_S = 900.0  # between implementations: kernellab's own work


@dataclass(frozen=True)
class LostWorker:
    """A worker was lost in the middle of a command. `impl` is the culprit, None if no implementation was running."""

    impl: str | None
    phase: str | None
    status: str
    reason: str
    interpreted: bool = False

    @property
    def outcome(self) -> tuple[str, str]:
        """The status of the culprit, and the reason.

        Triton's interpreter runs one program after the other, in the memory of this machine: where it does not finish,
        nothing is known about the kernel.
        """
        if self.interpreted and self.status in ("timeout", "oom"):
            return "unknown", f"Triton's interpreter cannot run it here: {self.reason}"
        return self.status, self.reason


class WorkerSlot:
    """Without a target the worker executes no op file: it measures the machine.

    `standin` as in `LoadTarget`.
    """

    def __init__(
        self,
        target: str | None,
        kind: str,
        settings: Settings,
        log: Path,
        template: WorkerTemplate,
        standin: str = "",
    ) -> None:
        self.target: Target | None = None
        if target is not None:
            self.target = replace(resolve(target), peers=settings.loaded_peers())
        self.kind, self.settings, self.log, self._standin = kind, settings, log, standin
        self._template = template
        self.ops: list[OpLoaded] = []
        self._device: DeviceChosen | None = None
        self._worker: WorkerProcess | None = None
        self._keys: dict[int, KeyKept] = {}  # of oracles that the worker has locked, by ticket

    @property
    def device(self) -> DeviceChosen:
        assert self._device is not None, "the worker has not been started"
        return self._device

    def ready(self) -> WorkerProcess:
        """The worker with its device chosen and its target loaded; starts one if there is none."""
        if self._worker is None:
            self._worker = WorkerProcess(self.kind, self.log, self._template)
            self.ops, self._keys = [], {}
            activity = "starting a worker"
            lost = self._start(ChooseDevice(device=self.settings.device))
            if lost is None and self.target is not None:
                activity = f"loading {self.target.text}"
                lost = self._start(
                    LoadTarget(
                        target=cast(TargetJson, asdict(self.target)),
                        request=self.settings.request,
                        impls=self.settings.impl_patterns(),
                        pins=self.settings.pins,
                        standin=self._standin,
                    )
                )
            if lost is not None or self._worker is None:
                reason = lost.reason if lost else "the worker is gone"
                raise UserError(f"{activity} failed: {reason}", self._log_tail())
        return self._worker

    def _start(self, command: Command) -> LostWorker | None:
        return self.work(command, self._store, idle_timeout_s=max(_START_TIMEOUT_S, self.settings.timeout_s))

    def _store(self, event: Event) -> None:
        if isinstance(event, OpLoaded):
            self.ops.append(event)
        elif isinstance(event, DeviceChosen):
            self._device = event

    def work(
        self, command: Command, handle: Callable[[Event], Command | None], *, idle_timeout_s: float = _IDLE_TIMEOUT_S
    ) -> LostWorker | None:
        """Carry out one command and pass every event to `handle`. Returns how the worker was lost, if it was.

        After `WorkerSpent` the command is unfinished, and its culprit has been reported.
        """
        worker = self._worker or self.ready()
        worker.busy = True
        worker.send(command)
        running: list[PhaseBegun] = []
        waiting = False
        while True:
            limit_s = self._silence_limit_s(running, idle_timeout_s)
            try:
                event = worker.receive(None if waiting else limit_s)
            except WorkerSilent:
                factor = f"{_REFERENCE_TIMEOUTS} × " if running and running[-1].impl is None else ""
                return self._lose(running, "timeout", f"did not finish within {limit_s:g} s ({factor}--timeout)")
            except WorkerDied as death:
                return self._lose(running, "oom" if death.out_of_memory else "crashed", death.reason)
            waiting = isinstance(event, WaitBegun)  # for another run's timing: without a limit
            match event:
                case PhaseBegun():
                    running.append(event)
                case PhaseEnded():
                    del running[-1:]
                case RequestRefused():
                    worker.busy = False
                    raise UserError(event.message, event.detail)
                case WorkerBroken():
                    return self._lose(running, "error", f"kernellab failed: {event.reason}")
                case CommandDone():
                    worker.busy = False
                    return None
                case WorkerSpent():
                    worker.busy = False
                    self.close()
                    handle(event)
                    return None
                case KeyKept():
                    self._keys[event.ticket] = event
                    continue
                case KeyAsked():
                    kept = self._keys.pop(event.ticket, None)
                    key, checksum = (None, None) if kept is None else (kept.key, kept.checksum)
                    worker.send(ReleaseKey(key=key, checksum=checksum))
                    continue
            answer = handle(event)
            if answer is not None:
                worker.send(answer)

    def _silence_limit_s(self, running: list[PhaseBegun], idle_timeout_s: float) -> float:
        """How long the worker may send nothing, given what it is running."""
        if not running:
            return idle_timeout_s
        return self.settings.timeout_s * (1 if running[-1].impl is not None else _REFERENCE_TIMEOUTS)

    def _lose(self, running: list[PhaseBegun], status: str, reason: str) -> LostWorker:
        self.close()
        impl, phase = (running[-1].impl, running[-1].phase) if running else (None, None)
        return LostWorker(impl, phase, status, reason, interpreted=self.kind == "interpreter")

    def _log_tail(self) -> str:
        try:
            return "\n".join(self.log.read_text(errors="replace").splitlines()[-12:])
        except OSError:
            return ""

    def close(self) -> None:
        worker, self._worker = self._worker, None  # only the first of several threads ends it
        if worker is not None:
            worker.kill()
