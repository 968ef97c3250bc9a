"""A run: load every target, plan its groups, run them in workers, and write what is observed to the journal.

This is the parent process. It imports neither torch nor op files.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from typing import cast

from kernellab.base import shape
from kernellab.base.errors import UserError, nearest
from kernellab.base.paths import cache_dir, file_name, replace_file
from kernellab.declaration.documents import PeerLibraryJson
from kernellab.declaration.kinds import match_names
from kernellab.machine import tools
from kernellab.machine.description import Ceilings
from kernellab.machine.environment import device_identity, machine_class, run_key
from kernellab.record.event import Event
from kernellab.record.journal import Journal
from kernellab.record.result_events import PhaseBegun
from kernellab.record.run_events import MachineDescribed, OpVoided, PlannedGroup, RunCompleted, WorkPlanned
from kernellab.record.settings import Settings
from kernellab.running.parent.battery import Battery
from kernellab.running.parent.failed_trials import FailedTrials
from kernellab.running.parent.groups import Groups
from kernellab.running.parent.progress import Progress
from kernellab.running.parent.remaining_work import Group
from kernellab.running.parent.sanitizer import Sanitizer, SanitizerJob, impls_to_sanitize
from kernellab.running.parent.worker_pool import WorkerPool
from kernellab.running.parent.worker_slot import WorkerSlot
from kernellab.running.processes.worker_template import WorkerTemplate
from kernellab.running.protocol.commands import MeasureCeilings
from kernellab.running.protocol.events import (
    BatteryGenerated,
    CeilingsMeasured,
    DeviceChosen,
    ImplDescription,
    OpLoaded,
)


class Runner:
    def __init__(
        self, settings: Settings, journal: Journal, progress: Progress, template: WorkerTemplate | None = None
    ) -> None:
        self.settings, self.journal, self.progress = settings, journal, progress
        self.environment = journal.record["environment"]
        self.pool = WorkerPool(settings, journal.folder / "artifacts", template)
        self._device: DeviceChosen | None = None

    def run(self) -> None:
        """Do everything that the settings request and the journal does not have yet."""
        stages = self.settings.stages
        try:
            slots = self._load()
            self._refuse_sanitizing_without_gpu()
            self.settings.series(self.device)  # raises if this device lacks a timer
            planned = self._plan(slots)
            self._describe_machine(planned)
            self.journal.save()
            groups = Groups(planned, self.settings, self.journal, self.pool, self.progress, self.device)
            groups.run()
            if "battery" in stages:
                self._search(self._run_batteries(groups))
            if "sanitize" in stages:
                self._sanitize(planned)
            if "time" in stages and not self.settings.only_times:
                groups.profile()
            self.journal.write(RunCompleted())
        finally:
            self.close()

    def close(self) -> None:
        self.pool.close()

    @property
    def device(self) -> str:
        return self._chosen_device.device

    @property
    def _chosen_device(self) -> DeviceChosen:
        assert self._device is not None, "no target is loaded yet"
        return self._device

    # Planning ------------------------------------------------------------------------------------------

    def _load(self) -> list[WorkerSlot]:
        slots = [self.pool.open(target, "native") for target in dict.fromkeys(self.settings.targets)]
        for slot in slots:
            assert slot.target is not None
            self.progress.say(f"loading {slot.target.text}")
            slot.ready()
        self._device = slots[0].device
        return slots

    def _plan(self, slots: list[WorkerSlot]) -> list[Group]:
        groups = []
        owners: dict[str, str] = {}
        for slot, target in zip(slots, dict.fromkeys(self.settings.targets), strict=True):
            for op in slot.ops:
                owner = owners.setdefault(op.name, target)
                if owner != target:
                    raise UserError(f"two ops are named {op.name}: in {owner} and in {target}")
                self._void_if_changed(op)
                impls = self._without_compile(op.impls) if self.settings.quick_check else op.impls
                groups += [Group(slot, op.name, case, impls) for case in op.cases]
        self._refuse_unknown_impls(slots)
        groups = self._own_cell(groups)
        sources = {op.name: op.source_hash for slot in slots for op in slot.ops}
        plan: list[PlannedGroup] = [
            {"op": g.op, "case": g.case, "impls": {i["name"]: i["kind"] for i in g.impls}} for g in groups
        ]
        self.journal.write(WorkPlanned(groups=plan, sources=sources, peers=_peers(slots)))
        return groups

    def _without_compile(self, impls: list[ImplDescription]) -> list[ImplDescription]:
        """Leave out `compile`, which takes as long as everything else together, unless `--impl` names it."""
        if self.settings.impls:
            return impls
        reason = "left out by --quick because compiling takes long: --impl compile includes it"
        return [{**impl, "obstacle": reason} if impl["kind"] == "compile" else impl for impl in impls]

    def _own_cell(self, groups: list[Group]) -> list[Group]:
        """The groups of `--cells i/n`. Neighbours go to different cells, so each cell has small and large cases."""
        if self.settings.cells is None:
            return groups
        number, cells = self.settings.cells
        if groups and number > len(groups):
            raise UserError(f"--cells {number}/{cells} is empty: there are {len(groups)} cases to share")
        return groups[number - 1 :: cells]

    def _refuse_unknown_impls(self, slots: list[WorkerSlot]) -> None:
        known = {name for slot in slots for op in slot.ops for name in op.known_impls}
        for name in self.settings.impls:
            if not match_names(name, known):
                peer = _peers(slots).get(name)
                if peer is not None and peer["problem"]:
                    raise UserError(f"{name} cannot be used: {peer['problem']}")
                raise UserError(f"no implementation {name!r}: {nearest(name, known)}")

    def _void_if_changed(self, op: OpLoaded) -> None:
        before = self.journal.record["sources"].get(op.name)
        if before is not None and before != op.source_hash:
            self.progress.say(f"{op.name} changed since the run began: it is run again")
            self.journal.write(OpVoided(op=op.name))

    def _describe_machine(self, groups: list[Group]) -> None:
        device = self._chosen_device
        identity = device_identity(self.environment, device.uuid)
        key = run_key(self.environment, identity)
        before = self.journal.record["machine"].get("key")
        if before is not None and before != key:
            raise UserError(
                f"{self.journal.folder} was begun with other versions or on another device: start a new run"
            )
        timed = "time" in self.settings.stages and groups
        self.journal.write(
            MachineDescribed(
                machine={
                    "device": device.device,
                    "torch": device.torch,
                    "cuda": device.cuda,
                    "peaks": device.peaks,
                    "gpu": device.gpu,
                    "name": identity,
                    "class": machine_class(self.environment, device.uuid),
                    "key": key,
                    "ceilings": self._ceilings(identity) if timed else None,
                }
            )
        )

    def _ceilings(self, identity: str) -> Ceilings | None:
        """The machine's ceilings: measured once per machine and cached; `--refresh-ceilings` measures again.

        With `--only-times` they are known only if they were measured before.
        """
        file = cache_dir("ceilings") / f"{file_name(identity)}.json"
        if file.exists() and not self.settings.refresh_ceilings:
            try:
                cached = json.loads(file.read_text())
                if shape.difference(cached, Ceilings) is None and self._is_enough(cached):
                    return cast(Ceilings, cached)
            except ValueError:
                pass
        if self.settings.only_times:
            return None
        self.progress.say("measuring this machine's copy bandwidth and matmul rate (once)")
        measured: list[CeilingsMeasured] = []
        # In a worker of its own: in the others an op file may have changed the precision or the number of threads.
        slot = self.pool.open(None, "native")
        lost = slot.work(
            MeasureCeilings(), lambda event: measured.append(event) if isinstance(event, CeilingsMeasured) else None
        )
        slot.close()
        if lost is not None or not measured:
            self.progress.say("the machine's ceilings could not be measured")
            return None
        event = measured[0]
        ceilings: Ceilings = {
            "copy_gbps": event.copy_gbps,
            "matmul_tflops": event.matmul_tflops,
            "threads": event.threads,
            "measured_at": event.measured_at,
            "doubts": event.doubts,
        }
        if event.matmul_by_clock is not None:
            ceilings["matmul_by_clock"] = event.matmul_by_clock
        if event.doubts:
            self.progress.say(f"measured again next time: {'; '.join(event.doubts)}")
        else:
            replace_file(file, json.dumps(ceilings, indent=1).encode())
        return ceilings

    def _is_enough(self, ceilings: Ceilings) -> bool:
        """Whether ceilings of an earlier run have all that is measured today, on a GPU matmul rates by clock too."""
        measured_today = not self.device.startswith("cuda") or "matmul_by_clock" in ceilings
        return measured_today or self.settings.only_times

    # Beyond the declared cases -------------------------------------------------------------------------

    def _run_batteries(self, groups: Groups) -> list[tuple[Battery, list[str]]]:
        """Run each op's battery, also for implementations that have killed a worker at a declared case."""
        batteries = []
        for group in _one_per_op(groups.groups):
            killers = groups.killers(group.op)
            file = next(op.file for op in group.slot.ops if op.name == group.op)
            for kind, names in (("native", group.native), ("interpreter", group.interpreted)):
                if names:
                    slot = group.slot if kind == "native" else self.pool.sibling(group.slot, kind)
                    where = "" if kind == "native" else " in Triton's interpreter"
                    self.progress.say(f"the battery of {group.op}{where}")
                    failed_trials = FailedTrials(group.op, file)
                    battery = Battery(group.op, slot, self.settings, self.journal, failed_trials, killers)
                    battery.run(names, self._trial_listener(group.op))
                    batteries.append((battery, [name for name in names if name not in killers]))
            self.journal.save()
        return batteries

    def _search(self, batteries: list[tuple[Battery, list[str]]]) -> None:
        """Search beyond the battery for implementations that passed it. `manual` is the definition and cannot fail."""
        if not self.settings.budget_s:
            return
        todo = [
            (battery, impl)
            for battery, impls in batteries
            for impl in impls
            if impl != "manual" and not battery.has_failed(impl)
        ]
        for battery, impl in todo:
            if not battery.is_searched(impl):
                self.progress.say(f"searching: {battery.op} {impl}")
                battery.search(impl, self.settings.budget_s / len(todo), self._trial_listener(battery.op))
                self.journal.save()

    def _trial_listener(self, op: str) -> Callable[[Event], None]:
        """A listener that reports each trial as progress."""
        total = 0

        def listen(event: Event) -> None:
            nonlocal total
            match event:
                case BatteryGenerated():
                    total = event.trials
                case PhaseBegun(phase="try" | "search", impl=str(impl), number=int(number)):
                    self.progress.show_trial(op, impl, max(0, number) + 1, total)

        return listen

    def _refuse_sanitizing_without_gpu(self) -> None:
        if "sanitize" in self.settings.stages and not self.device.startswith("cuda"):
            raise UserError(
                f"--sanitize needs an NVIDIA GPU, and this run uses {self.device}: klab doctor says what is missing"
            )

    def _sanitize(self, groups: list[Group]) -> None:
        """Run implementations under each tool, also those that have killed a worker: the tool may show why."""
        path = tools.compute_sanitizer()
        if path is None:
            raise UserError(f"--sanitize: {tools.compute_sanitizer_missing()}")
        jobs = []
        for group in _one_per_op(groups):
            assert group.slot.target is not None
            impls = impls_to_sanitize(group.impls, named=bool(self.settings.impls))
            for impl, tool in itertools.product(impls, self.settings.sanitizers):
                jobs.append(SanitizerJob(group.slot.target, group.op, impl, tool))

        def listen(job: SanitizerJob, trial: int, trials: int) -> None:
            if trials:
                self.progress.show_trial(job.op, f"{job.impl} under {job.tool}", trial, trials)
            else:
                self.progress.say(f"{job.op} {job.impl} under {job.tool}")

        Sanitizer(path, self.settings, self.journal, self.device).run(jobs, listen)


def _peers(slots: list[WorkerSlot]) -> dict[str, PeerLibraryJson]:
    """The peers of all ops, by name."""
    return {name: peer for slot in slots for op in slot.ops for name, peer in op.peers.items()}


def _one_per_op(groups: list[Group]) -> list[Group]:
    return list({group.op: group for group in groups}.values())
