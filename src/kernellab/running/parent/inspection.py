"""Reads the machine code of an op. Its architectures are distributed over a few workers.

When an implementation kills a worker, the implementations after it go to another worker.
"""

from __future__ import annotations

import dataclasses
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed

from kernellab.base.errors import UserError, nearest
from kernellab.declaration.kinds import match_names
from kernellab.machine import tools
from kernellab.machine.chips import DEFAULT_ARCH
from kernellab.record.battery_events import CodeRead
from kernellab.record.event import Event
from kernellab.record.journal import Journal
from kernellab.record.run_events import RunCompleted
from kernellab.record.settings import Settings
from kernellab.running.parent.worker_slot import LostWorker, WorkerSlot
from kernellab.running.processes.worker_template import WorkerTemplate
from kernellab.running.protocol.commands import ArchitectureRequest, InspectOp
from kernellab.running.protocol.events import ArchitectureBegun, LaunchCaptured, OpLoaded

_SLOW = ("compile",)  # kinds that take as long as all others together: read only if `--impl` names them


class Inspection:
    """What the implementations of one op compile to. `say` reports progress."""

    def __init__(self, settings: Settings, journal: Journal, say: Callable[[str], None]) -> None:
        self.settings, self.journal, self._say = settings, journal, say
        self._lock = threading.Lock()
        self._slots: list[WorkerSlot] = []
        self._template = WorkerTemplate()
        self._reported: set[str] = set()  # a launch in a loop is reported once

    def run(self) -> None:
        archs = self.settings.archs or [""]
        # Starting a worker takes longer than compiling most kernels: a few workers share the architectures.
        # A process that has initialised CUDA cannot be forked: on a GPU each architecture has its own worker.
        workers = len(archs) if tools.has_gpu() else min(len(archs), os.cpu_count() or 1)
        shares = [list(enumerate(archs))[first::workers] for first in range(workers)]
        try:
            with ThreadPoolExecutor(max_workers=workers) as threads:
                futures = [threads.submit(self._read_share, dict(share)) for share in shares]
                try:
                    for future in as_completed(futures):
                        future.result()
                except BaseException:  # a failure, or the user's interrupt: end the other workers too
                    threads.shutdown(wait=False, cancel_futures=True)
                    self.close()
                    raise
            self.journal.write(RunCompleted())
        finally:
            self.close()

    def close(self) -> None:
        for slot in self._slots:
            slot.close()
        self._template.close()

    def report(self, arch: str, kernel: str) -> None:
        line = f"{arch}: {kernel}"
        with self._lock:
            if line not in self._reported:
                self._reported.add(line)
                self._say(line)

    def write(self, event: CodeRead) -> None:
        with self._lock:
            self.journal.write(event)

    def _read_share(self, archs: dict[int, str]) -> None:
        """Read some of the architectures, given by number. A worker that dies is replaced until all are read."""
        names = ", ".join(archs.values()) or f"the GPU here, or {DEFAULT_ARCH}"
        log = self.journal.folder / "artifacts" / f"worker-{min(archs)}.log"
        # Libraries look for a GPU while they are imported. Caches that they fill then are kept by device.
        standin = self.settings.gpu or next(iter(archs.values())) or DEFAULT_ARCH
        slot = WorkerSlot(self.settings.targets[0], "native", self.settings, log, self._template, standin)
        with self._lock:
            self._slots.append(slot)
            self._say(f"loading {self.settings.targets[0]} for {names}")
        slot.ready()
        op = self._only_op(slot)
        impls = self._impls(op)
        if 0 in archs:
            self._report_left_out(op, _Share(self, op, archs, impls, 0))
        todo = {number: list(impls) for number in archs}
        while todo:
            share = _Share(self, op, archs, impls, next(iter(todo)))
            work: list[ArchitectureRequest] = [
                {"arch": archs[number], "impls": left, "cpu": number == 0} for number, left in todo.items()
            ]
            command = InspectOp(
                op=op.name,
                request=self.settings.request,
                work=work,
                passes=self.settings.passes,
                gpu=self.settings.gpu,
                folder=str(self.journal.folder.resolve()),
                apart=len(todo) > 1,
                accounts="explain" in self.settings.stages,
            )
            lost = slot.work(command, share.observe)
            if lost is None:
                return
            left = share.blame(lost, todo[share.number])
            todo = {number: names for number, names in todo.items() if number > share.number}
            if left:
                todo = {share.number: left, **todo}

    def _only_op(self, slot: WorkerSlot) -> OpLoaded:
        if len(slot.ops) > 1:
            names = [op.name for op in slot.ops]
            raise UserError(f"{self.settings.targets[0]} declares {', '.join(names)}: name one, FILE:{names[0]}")
        return slot.ops[0]

    def _impls(self, op: OpLoaded) -> list[str]:
        for name in self.settings.impls:
            if not match_names(name, op.known_impls):
                raise UserError(f"no implementation {name!r} of {op.name}: {nearest(name, op.known_impls)}")
        named = bool(self.settings.impls)
        return [impl["name"] for impl in op.impls if named or impl["kind"] not in _SLOW]

    def _report_left_out(self, op: OpLoaded, share: _Share) -> None:
        """Record implementations that are not read, with the reason."""
        for impl in op.impls:
            if impl["kind"] in _SLOW and not self.settings.impls:
                share.write_nothing(
                    impl["name"], "skipped", "not inspected, because compiling takes long: --impl includes it"
                )


class _Share:
    """The events of one worker, and the architecture that it is reading."""

    def __init__(
        self, inspection: Inspection, op: OpLoaded, archs: dict[int, str], impls: list[str], number: int
    ) -> None:
        self._inspection, self._op, self._archs, self.number = inspection, op, archs, number
        self._places = {name: place for place, name in enumerate(inspection.settings.impls or impls)}

    @property
    def arch(self) -> str:
        return self._archs[self.number]

    def observe(self, event: Event) -> None:
        match event:
            case ArchitectureBegun():
                self.number = next(number for number, arch in self._archs.items() if arch == event.arch)
            case LaunchCaptured():
                self._inspection.report(event.arch, event.kernel)
            case CodeRead():
                self._write(event)

    def blame(self, lost: LostWorker, impls: list[str]) -> list[str]:
        """Record the implementation that killed the worker; returns those after it."""
        if lost.impl is None:
            raise UserError(f"reading {self._op.name} for {self.arch or 'this GPU'} failed: {lost.reason}")
        self.write_nothing(lost.impl, lost.status, lost.reason)
        return impls[impls.index(lost.impl) + 1 :]

    def write_nothing(self, impl: str, status: str, reason: str) -> None:
        """Record that no code of an implementation was read, and why."""
        self._write(
            CodeRead(
                op=self._op.name,
                impl=impl,
                kind=next(i["kind"] for i in self._op.impls if i["name"] == impl),
                case=None,
                arch=self.arch,
                gpu=None,
                pass_name=", ".join(self._inspection.settings.passes),
                status=status,
                reason=reason,
                seconds=None,
                kernels=[],
            )
        )

    def _write(self, event: CodeRead) -> None:
        """Write an event with `order`: implementation and architecture by place in the request, not by time."""
        place = self._places.get(event.impl, len(self._places))  # a pattern named it: after the others
        self._inspection.write(dataclasses.replace(event, order=[place, self.number]))
