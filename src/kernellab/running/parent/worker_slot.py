"""A post: one target's place in a kind of worker, refilled when its worker is lost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernellab.base.errors import UserError
from kernellab.declaration.targets import Target, resolve
from kernellab.record.settings import Settings
from kernellab.running.processes.worker_process import Died, Silent, WorkerClient

_START_TIMEOUT_S = 180.0  # importing torch on a busy machine
_PATIENCE = 5  # float64 is slow and a file may build things when it is loaded; no way's fault
_IDLE_TIMEOUT_S = 900.0  # between implementations: kernellab's own work

Event = dict[str, Any]


@dataclass(frozen=True)
class Lost:
    """A worker lost in the middle of its work, and whose doing it was (None: nobody's that we know of)."""

    impl: str | None
    phase: str | None
    status: str
    reason: str


class Post:
    """`target` None is a worker that executes nobody's file: for measuring the machine."""

    def __init__(self, target: str | None, kind: str, settings: Settings, log: Path) -> None:
        self.target: Target | None = resolve(target) if target is not None else None
        self.kind, self.settings, self.log = kind, settings, log
        self.ops: list[Event] = []
        self.device: Event = {}
        self._worker: WorkerClient | None = None

    def ready(self) -> WorkerClient:
        """The worker with its device chosen and its target loaded; starts one if there is none."""
        if self._worker is None:
            self._worker = WorkerClient(self.kind, self.log)
            self.ops = []
            what = "starting a worker"
            lost = self._start("device", device=self.settings.device)
            if lost is None and self.target is not None:
                what = f"loading {self.target.text}"
                request, impls = self.settings.request, self.settings.impls
                pins = self.settings.pins
                lost = self._start("load", target=vars(self.target), request=request, impls=impls, pins=pins)
            if lost is not None or self._worker is None:
                reason = lost.reason if lost else "the worker is gone"
                raise UserError(f"{what} failed: {reason}", self._log_tail())
        return self._worker

    def _start(self, do: str, **fields: Any) -> Lost | None:
        return self.work(do, self._note, idle_timeout_s=max(_START_TIMEOUT_S, self.settings.timeout_s), **fields)

    def _note(self, event: Event) -> None:
        if event["event"] == "op":
            self.ops.append(event)
        elif event["event"] == "device":
            self.device = event

    def work(
        self,
        do: str,
        handle: Callable[[Event], None],
        *,
        idle_timeout_s: float = _IDLE_TIMEOUT_S,
        **fields: Any,
    ) -> Lost | None:
        """Carry out one command, handing every event on. Returns how the worker was lost, None if it was not."""
        worker = self._worker or self.ready()
        worker.busy = True
        worker.send(do, **fields)
        running: list[tuple[str | None, str]] = []
        waiting = False
        while True:
            limit = self._limit(running, idle_timeout_s)
            try:
                event = worker.receive(None if waiting else limit)
            except Silent:
                patience = f"{_PATIENCE} × " if running and running[-1][0] is None else ""
                return self._lost(running, "timeout", f"no end within {limit:g} s ({patience}--timeout)")
            except Died as died:
                return self._lost(running, "oom" if died.out_of_memory else "crashed", died.reason)
            kind = event["event"]
            waiting = kind == "waiting"  # for another run's timing: as long as it takes
            if kind == "begin":
                running.append((event["impl"], event["phase"]))
            elif kind == "end":
                del running[-1:]
            elif kind == "refused":
                worker.busy = False
                raise UserError(event["message"], event["detail"])
            elif kind == "broken":
                return self._lost(running, "error", f"kernellab failed: {event['reason']}")
            elif kind == "done":
                worker.busy = False
                return None
            elif kind == "replace":
                worker.busy = False
                self.close()
                return None
            handle(event)

    def _limit(self, running: list[tuple[str | None, str]], idle_timeout_s: float) -> float:
        """How long silence is allowed: a way its timeout, the oracle and the file itself five times as long."""
        if not running:
            return idle_timeout_s
        return self.settings.timeout_s * (1 if running[-1][0] is not None else _PATIENCE)

    def _lost(self, running: list[tuple[str | None, str]], status: str, reason: str) -> Lost:
        self.close()
        impl, phase = running[-1] if running else (None, None)
        return Lost(impl, phase, status, reason)

    def _log_tail(self) -> str:
        try:
            return "\n".join(self.log.read_text(errors="replace").splitlines()[-12:])
        except OSError:
            return ""

    def close(self) -> None:
        worker, self._worker = self._worker, None  # once, whichever thread comes first
        if worker is not None:
            worker.kill()
