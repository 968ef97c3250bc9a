"""The workers of a run: one slot for each target and kind, opened when first needed, closed together."""

from __future__ import annotations

from pathlib import Path

from kernellab.record.settings import Settings
from kernellab.running.parent.worker_slot import WorkerSlot
from kernellab.running.processes.worker_template import WorkerTemplate


class WorkerPool:
    """`template`: what workers are forked from, where several runs of this process share one."""

    def __init__(self, settings: Settings, logs: Path, template: WorkerTemplate | None = None) -> None:
        self._settings, self._logs = settings, logs
        self._slots: list[WorkerSlot] = []
        self._owns_template = template is None
        self._template = template or WorkerTemplate(times="time" in settings.stages)

    def open(self, target: str | None, kind: str) -> WorkerSlot:
        log = self._logs / f"worker-{len(self._slots)}-{kind}.log"
        self._slots.append(WorkerSlot(target, kind, self._settings, log, self._template))
        return self._slots[-1]

    def sibling(self, slot: WorkerSlot, kind: str) -> WorkerSlot:
        """The slot of another kind of worker for the same target."""
        for other in self._slots:
            if other.kind == kind and other.target == slot.target:
                return other
        return self.open(slot.target.text if slot.target else None, kind)

    def close(self) -> None:
        for slot in self._slots:
            slot.close()
        if self._owns_template:
            self._template.close()
