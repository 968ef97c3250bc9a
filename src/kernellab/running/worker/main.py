"""The worker process: executes op files, checks and times, and reports which implementation runs at every moment.

It reads commands and writes events as JSON lines on a private socket. Standard output belongs to the implementations
and goes to a log. The worker decides nothing about the run. When it dies, its parent finds the culprit in the last
`begin` without an `end`.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, TypeVar

from kernellab.base.errors import UserError
from kernellab.base.import_hook import call_after_import
from kernellab.base.json import JsonValue
from kernellab.base.user_code import explain
from kernellab.declaration.case_request import CaseRequest
from kernellab.declaration.documents import CaseJson
from kernellab.declaration.targets import Target
from kernellab.record.schema import GpuJson
from kernellab.record.settings import needed_checks
from kernellab.running.protocol import commands
from kernellab.running.protocol.events import (
    ArchitectureBegun,
    CeilingsMeasured,
    CommandDone,
    DeviceChosen,
    GridsTimed,
    RatesMeasured,
    RequestRefused,
    WorkerBroken,
    WorkerSpent,
)
from kernellab.running.worker.channel import Channel, GpuContextLost, device_id, timing_lock

if TYPE_CHECKING:
    from kernellab.declaration.op import Op
    from kernellab.running.worker.battery import BatteryRunner
    from kernellab.running.worker.task import Task

_Measured = TypeVar("_Measured")


class Worker:
    """Carries out one command after the other. Modules that a command needs are imported when it arrives."""

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self.ops: dict[str, Op] = {}

    def serve(self) -> NoReturn:
        while True:
            command = self.channel.receive()
            try:
                self._carry_out(command)
            except UserError as error:
                self.channel.send(RequestRefused(message=error.message, detail=error.detail))
            except GpuContextLost:
                self.channel.send(WorkerSpent())
                os._exit(0)
            except BaseException as error:  # a bug in kernellab: errors of implementations are caught earlier
                traceback.print_exc()
                self.channel.send(WorkerBroken(reason=explain(error)))
                os._exit(1)
            self.channel.send(CommandDone())

    def _carry_out(self, command: commands.Command) -> None:
        match command:
            case commands.ChooseDevice():
                self._choose_device(command)
            case commands.LoadTarget():
                self._load(command)
            case commands.MeasureCeilings():
                self._measure_ceilings()
            case commands.MeasureRates():
                self._measure_rates(command)
            case commands.TimeGrids():
                self._time_grids(command)
            case commands.WorkOnGroup():
                self._work_on_group(command)
            case commands.RunBattery():
                self._battery(command).run(command)
            case commands.SearchTrials():
                self._battery(command).search(command)
            case commands.ProfileGroup():
                self._profile(command)
            case commands.InspectOp():
                self._inspect(command)
            case _:
                raise TypeError(f"a worker cannot carry out `{command.message_name}`")

    # The device ----------------------------------------------------------------------------------------

    def _choose_device(self, command: commands.ChooseDevice) -> None:
        import torch

        from kernellab.accuracy.errors import load_kernels
        from kernellab.machine.peaks import peaks
        from kernellab.machine.telemetry import telemetry_for
        from kernellab.running.worker.describe import choose_device

        self.device = choose_device(command.device)
        uuid = device_id(self.device)
        vendor_peaks = None
        gpu: GpuJson | None = None
        if self.device.type == "cuda":
            torch.cuda.set_device(self.device)
            load_kernels(self.device)
            properties = torch.cuda.get_device_properties(self.device)
            sms, capability = properties.multi_processor_count, (properties.major, properties.minor)
            vendor_peaks = peaks(uuid, sms, capability, properties.L2_cache_size)
            gpu = {
                "name": properties.name,
                "arch": f"sm_{properties.major}{properties.minor}",
                "sms": sms,
                "l2_bytes": properties.L2_cache_size,
                "memory_bytes": properties.total_memory,
                "pin_gbps": vendor_peaks["pin_gbps"] if vendor_peaks else None,
            }
        # Telemetry starts now because it takes a while to see the other users of a GPU.
        self.telemetry = telemetry_for(uuid, threads=torch.get_num_threads())
        self.channel.send(
            DeviceChosen(
                device=str(self.device),
                torch=torch.__version__,
                cuda=torch.version.cuda,
                uuid=uuid,
                pid=os.getpid(),
                peaks=vendor_peaks,
                gpu=gpu,
            )
        )

    def _measure_ceilings(self) -> None:
        from kernellab.timing.ceilings import measure_ceilings
        from kernellab.timing.timers import burst_timer

        measured, _, doubts = self._measure_alone(
            lambda: measure_ceilings(burst_timer(self.device), lambda: self.telemetry.sample(force=True))
        )
        if measured.get("matmul_by_clock"):  # each rate has its clock, so that a clock that moved is no doubt
            doubts = {name: doubt for name, doubt in doubts.items() if name not in ("throttled", "clock-moved")}
        self.channel.send(CeilingsMeasured(**measured, doubts=list(doubts.values())))

    def _measure_rates(self, command: commands.MeasureRates) -> None:
        from kernellab.timing.rates import measure_rates
        from kernellab.timing.timers import burst_timer

        rates, columns, doubts = self._measure_alone(
            lambda: measure_rates(burst_timer(self.device), quick=command.quick, between=self._sample)
        )
        readings = columns.get("sm_mhz" if self.device.type == "cuda" else "mhz", [])
        clocks = [float(mhz) for mhz in readings if isinstance(mhz, (int, float)) and mhz]
        self.channel.send(
            RatesMeasured(
                rates=rates,
                clock_mhz=[min(clocks), max(clocks)] if clocks else None,
                doubts=list(doubts.values()),
            )
        )

    def _time_grids(self, command: commands.TimeGrids) -> None:
        from kernellab.timing.grids import measure_grids

        measured, _, doubts = self._measure_alone(
            lambda: measure_grids(
                self.device,
                command.grids,
                command.threads,
                command.shared_bytes,
                rounds=command.rounds,
                between=self.telemetry.sample,
            )
        )
        grids, block_ms = measured["grids"], measured["block_ms"]
        self.channel.send(GridsTimed(block_ms=block_ms, grids=grids, doubts=list(doubts.values())))

    def _sample(self) -> None:
        self.telemetry.sample(force=True)

    def _measure_alone(
        self, measure: Callable[[], _Measured]
    ) -> tuple[_Measured, dict[str, list[JsonValue]], dict[str, str]]:
        """Measure while no other run is timing on the device: the result, the telemetry, and doubts by name."""
        from kernellab.stats import trust

        with timing_lock(self.channel, self.device):
            began = self.telemetry.now
            self.telemetry.sample(force=True)
            measured = measure()
            self.telemetry.sample(force=True)
        columns = self.telemetry.columns(since=began)
        doubts = trust.find_reasons(columns, [], device=self.device.type, steady=None, interval=None)
        return measured, columns, {doubt["name"]: f"{doubt['name']}: {doubt['detail']}" for doubt in doubts}

    # Ops -----------------------------------------------------------------------------------------------

    def _load(self, command: commands.LoadTarget) -> None:
        """Execute the target and send descriptions of its ops, from which the parent plans."""
        # What checks and times is imported before foreign code runs: a module imported later would find functions that
        # the file has replaced.
        from kernellab.activity.autotuning import pin
        from kernellab.peers import load
        from kernellab.running.worker import battery as battery
        from kernellab.running.worker import profile as profile
        from kernellab.running.worker.describe import describe
        from kernellab.running.worker.group import limit_recompilation
        from kernellab.running.worker.guards.global_state import FunctionSnapshot
        from kernellab.running.worker.guards.integrity import Integrity
        from kernellab.timing import cuda_clock as cuda_clock

        # Not imported here: Dynamo takes as long to import as torch itself, and many runs do not need it.
        call_after_import("torch._dynamo.config", limit_recompilation)
        self.integrity, functions = Integrity(), FunctionSnapshot()
        with self.channel.running(None, "load"):  # runs code of the op file, where= included
            with self._gpu_while_loading(command.standin):
                self.ops = load(Target(**command.target))
            self.integrity.replaced_at_load = (
                *self.integrity.restore(self.channel),
                *self.integrity.operators.restore(),
            )
            self.integrity.restored_at_load = tuple(functions.restore())
            pin(command.pins)
            for op in self.ops.values():
                self.channel.send(describe(op, CaseRequest(**command.request), self.device, command.impls))

    def _gpu_while_loading(self, standin: str) -> contextlib.AbstractContextManager[object]:
        """Libraries ask for a GPU while they are imported: the one that their kernels will see."""
        if self.device.type == "cuda":
            return contextlib.nullcontext()
        if standin:
            from kernellab.capture.recorder import record_launches
            from kernellab.capture.standin_gpu import find_standin

            return record_launches(find_standin(standin))
        from kernellab.interpreter.pretended_gpu import pretended_gpu

        return pretended_gpu()

    def _work_on_group(self, command: commands.WorkOnGroup) -> None:
        from kernellab.running.worker.group import GroupRunner

        right = {pass_name: set(impls) for pass_name, impls in command.right.items()}
        # The lock covers the check too: it would disturb the timing of another run.
        with timing_lock(self.channel, self.device) if command.time else contextlib.nullcontext():
            task = self._task(command.op, command.case, command.seed)
            group = GroupRunner(task, command.interpreted, frozenset(command.distrusted), self.telemetry, command.most)
            group.remember_errors(command.errors)
            with contextlib.closing(group):
                for pass_name, impls in command.check.items():
                    checkable = impls if pass_name == "forward" else [i for i in impls if i in right["forward"]]
                    right.setdefault(pass_name, set()).update(group.check(checkable, pass_name))
                group.time(
                    command.time,
                    lambda impl, pass_name: all(impl in right.get(p, ()) for p in needed_checks(pass_name)),
                )

    def _battery(self, command: commands.BatteryCommand) -> BatteryRunner:
        from kernellab.running.worker.battery import BatteryRunner

        return BatteryRunner(
            self.channel,
            self.ops[command.op],
            self.device,
            command.seed,
            command.interpreted,
            frozenset(command.distrusted),
            self.integrity,
            command.distrusted_at,
        )

    def _profile(self, command: commands.ProfileGroup) -> None:
        from kernellab.running.worker.profile import profile_group

        with timing_lock(self.channel, self.device):
            task = self._task(command.op, command.case, command.seed)
            profile_group(task, command.impls, command.series, command.rounds)

    def _inspect(self, command: commands.InspectOp) -> None:
        from kernellab.running.worker.inspection import Inspector

        for request in command.work:
            inspector = Inspector(
                self.channel,
                self.ops[command.op],
                self.device,
                request["arch"],
                command.gpu,
                Path(command.folder),
                cpu=request["cpu"],
                accounts=command.accounts,
            )
            run = functools.partial(inspector.run, request["impls"], CaseRequest(**command.request), command.passes)
            self.channel.send(ArchitectureBegun(arch=request["arch"]))
            self.channel.run_in_fork(run) if command.apart else run()

    def _task(self, op: str, case: CaseJson, seed: int) -> Task:
        from kernellab.running.worker.task import Task

        return Task(self.channel, self.ops[op], self.ops[op].case(case), self.device, seed, self.integrity)


def run(connection: int, kind: str) -> NoReturn:
    """Be a worker: this process has just been forked."""
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:  # noqa: PTH123
        file.write("1000")  # when memory runs out, Linux kills this process first
    sys.path.append(str(Path.cwd()))  # last, so that a file in this folder cannot hide an installed module
    if kind == "interpreter":
        from kernellab.interpreter.emulation import enable_interpreter

        enable_interpreter()
    Worker(Channel(connection)).serve()
