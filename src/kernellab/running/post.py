"""A post: one target's place in a kind of worker, refilled when its worker is lost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernellab.errors import UserError
from kernellab.running.client import Died, Silent, WorkerClient
from kernellab.running.settings import Settings
from kernellab.targets import Target, resolve

_START_TIMEOUT_S = 180.0  # importing torch on a busy machine, then executing the op file
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
    def __init__(self, target: str, kind: str, settings: Settings, log: Path) -> None:
        self.target: Target = resolve(target)
        self.kind, self.settings, self.log = kind, settings, log
        self.ops: list[Event] = []
        self.loaded: Event = {}
        self._worker: WorkerClient | None = None

    def ready(self) -> WorkerClient:
        """The worker with the target loaded; starts one if there is none."""
        if self._worker is None:
            self._worker = WorkerClient(self.kind, self.log)
            self.ops = []
            s = self.settings
            lost = self.work(
                "load",
                self._note_loaded,
                idle_timeout_s=max(_START_TIMEOUT_S, s.timeout_s),
                target=vars(self.target),
                request=s.request,
                device=s.device,
                impls=s.impls,
            )
            if lost is not None:
                raise UserError(f"loading {self.target.text} failed: {lost.reason}", self._log_tail())
        return self._worker

    def _note_loaded(self, event: Event) -> None:
        if event["event"] == "op":
            self.ops.append(event)
        elif event["event"] == "loaded":
            self.loaded = event

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
        running: list[tuple[str, str]] = []
        while True:
            try:
                event = worker.receive(self.settings.timeout_s if running else idle_timeout_s)
            except Silent:
                limit = self.settings.timeout_s if running else idle_timeout_s
                return self._lost(running, "timeout", f"no end within {limit:g} s (--timeout)")
            except Died as died:
                return self._lost(running, "oom" if died.out_of_memory else "crashed", died.reason)
            kind = event["event"]
            if kind == "begin":
                running.append((event["impl"], event["phase"]))
            elif kind == "end":
                running.pop()
            elif kind == "refused":
                worker.busy = False
                raise UserError(event["message"], event["detail"])
            elif kind == "done":
                worker.busy = False
                return None
            elif kind == "replace":
                worker.busy = False
                self.close()
                return None
            handle(event)

    def _lost(self, running: list[tuple[str, str]], status: str, reason: str) -> Lost:
        self.close()
        impl, phase = running[-1] if running else (None, None)
        return Lost(impl, phase, status, reason)

    def _log_tail(self) -> str:
        try:
            return "\n".join(self.log.read_text(errors="replace").splitlines()[-12:])
        except OSError:
            return ""

    def close(self) -> None:
        if self._worker is not None:
            self._worker.kill()
            self._worker = None
