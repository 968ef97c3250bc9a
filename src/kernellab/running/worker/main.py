"""The worker process: executes op files, checks and times, and says who is running at every moment.

It reads commands and writes events as JSON lines on one private socket. Standard output belongs to
the implementations and goes to a log. It decides nothing about the run: when it dies, its parent
knows from the last `begin` without an `end` whose fault it was.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernellab.base.errors import UserError
from kernellab.base.user_code import explain
from kernellab.declaration.case_request import CaseRequest
from kernellab.declaration.targets import Target
from kernellab.record.settings import needed_checks
from kernellab.running.worker.channel import Channel, GpuGone, device_id, timing_lock

if TYPE_CHECKING:
    from kernellab.activity.autotuning import Choice
    from kernellab.running.worker.battery import BatteryWork
    from kernellab.running.worker.task import Task

_PR_SET_PDEATHSIG = 1


def die_with_parent(parent: int, lifeline: int, channel: int) -> None:
    """End with the parent, whatever an implementation is doing or has started, and first when memory runs out.

    The kernel is asked to kill this process; a guardian, which no implementation can hold up, kills the
    rest of the process group. It waits for the end of the parent's pipe.
    """
    if os.fork() == 0:
        os.close(channel)  # or the parent would not see this worker's death
        os.read(lifeline, 1)
        os.killpg(0, signal.SIGKILL)
    os.close(lifeline)
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it died before the request was in place
        os._exit(1)
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as f:  # noqa: PTH123
        f.write("1000")


class Worker:
    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self.ops: dict[str, Any] = {}

    def serve(self) -> None:
        while True:
            command = self.channel.receive()
            try:
                getattr(self, "do_" + command.pop("do"))(**command)
            except UserError as error:
                self.channel.send("refused", message=error.message, detail=error.detail)
            except GpuGone:
                self.channel.send("replace")
                os._exit(0)
            except BaseException as error:  # ours, not an implementation's: say what happened and start afresh
                traceback.print_exc()
                self.channel.send("broken", reason=explain(error))
                os._exit(1)
            self.channel.send("done")

    def do_device(self, device: str) -> None:
        """Choose the device everything else here runs on."""
        import torch

        from kernellab.checking.accuracy import load_kernels
        from kernellab.machine.peaks import peaks
        from kernellab.machine.telemetry import telemetry_for
        from kernellab.running.worker.describe import choose_device

        self.device = choose_device(device)
        if self.device.type == "cuda":
            torch.cuda.set_device(self.device)
        uuid = device_id(self.device)
        facts: dict[str, Any] = {"torch": torch.__version__, "cuda": torch.version.cuda, "uuid": uuid}
        facts |= {"peaks": None, "gpu": None}
        if self.device.type == "cuda":
            load_kernels(self.device)
            gpu = torch.cuda.get_device_properties(self.device)
            facts["peaks"] = peaks(uuid, gpu.multi_processor_count, (gpu.major, gpu.minor), gpu.L2_cache_size)
            facts["gpu"] = {
                "name": gpu.name,
                "arch": f"sm_{gpu.major}{gpu.minor}",
                "sms": gpu.multi_processor_count,
                "l2_bytes": gpu.L2_cache_size,
                "memory_bytes": gpu.total_memory,
                "pin_gbps": (facts["peaks"] or {}).get("pin_gbps"),
            }
        # From the start: who else uses a GPU is known only after a while.
        self.telemetry = telemetry_for(uuid, threads=torch.get_num_threads())
        self.channel.send("device", device=str(self.device), **facts)

    def do_load(self, target: dict[str, str], request: dict[str, Any], impls: list[str], pins: list[Choice]) -> None:
        """Execute the target and describe its ops: what the parent needs to plan."""
        from kernellab.activity.autotuning import pin
        from kernellab.activity.compilation import CompilationLog
        from kernellab.declaration.targets import load
        from kernellab.running.worker.describe import describe
        from kernellab.running.worker.group import limit_recompiling

        # Dynamo takes as long to import as torch itself, and many runs do without.
        CompilationLog.installed().when_imported("torch._dynamo.config", limit_recompiling)
        with self.channel.running(None, "load"):  # the file's code, its where= too, and no way's
            self.ops = load(Target(**target))
            pin(pins)
            for op in self.ops.values():
                self.channel.send("op", **describe(op, CaseRequest(**request), self.device, impls))

    def do_ceilings(self) -> None:
        from kernellab.timing.ceilings import measure_ceilings
        from kernellab.timing.timers import burst_timer

        measured, _, doubts = self._watched(lambda: measure_ceilings(burst_timer(self.device)))
        self.channel.send("ceilings", **measured, doubts=doubts)

    def do_rates(self, quick: bool) -> None:
        """Every bandwidth and matmul rate of the device, with the clock it held meanwhile."""
        from kernellab.timing.rates import measure_rates
        from kernellab.timing.timers import burst_timer

        rates, columns, doubts = self._watched(
            lambda: measure_rates(burst_timer(self.device), quick=quick, between=self._sample)
        )
        clocks = [mhz for mhz in columns.get("sm_mhz" if self.device.type == "cuda" else "mhz", []) if mhz]
        span = [min(clocks), max(clocks)] if clocks else None
        self.channel.send("rates", rates=rates, clock_mhz=span, doubts=doubts)

    def do_fill(self, grids: list[int], threads: int, shared_bytes: int, rounds: int) -> None:
        """How long grids of equal blocks take."""
        from kernellab.timing.grids import measure_grids

        measured, _, doubts = self._watched(
            lambda: measure_grids(
                self.device, grids, threads, shared_bytes, rounds=rounds, between=self.telemetry.sample
            )
        )
        self.channel.send("fill", **measured, doubts=doubts)

    def _sample(self) -> None:
        self.telemetry.sample(force=True)

    def _watched(self, measure: Callable[[], Any]) -> tuple[Any, dict[str, list[Any]], list[str]]:
        """What was measured, alone on the device; what the machine did meanwhile; what speaks against it."""
        from kernellab.stats import trust

        with timing_lock(self.channel, self.device):
            began = self.telemetry.now
            self.telemetry.sample(force=True)
            measured = measure()
            self.telemetry.sample(force=True)
        columns = self.telemetry.columns(since=began)
        doubts = trust.find_reasons(columns, [], device=self.device.type, steady=None, interval=None)
        return measured, columns, [f"{d['name']}: {d['detail']}" for d in doubts]

    def do_group(
        self,
        op: str,
        case: dict[str, Any],
        check: dict[str, list[str]],
        right: dict[str, list[str]],
        time: list[dict[str, Any]],
        distrusted: list[str],
        seed: int,
        interpreted: bool,
        most: int | None = None,
    ) -> None:
        """Check the passes of ways at a case, then time those that are right, a series at a time.

        `right` names the ways whose passes an earlier worker found right.
        """
        from kernellab.running.worker.group import GroupWork

        found = {of: set(names) for of, names in right.items()}
        # Checking too is done alone on the device where something is timed: it would disturb another run's timing.
        with timing_lock(self.channel, self.device) if time else contextlib.nullcontext():
            group = GroupWork(self._task(op, case, seed), interpreted, frozenset(distrusted), self.telemetry, most)
            with contextlib.closing(group):
                for of, names in check.items():
                    may = names if of == "forward" else [n for n in names if n in found["forward"]]
                    found.setdefault(of, set()).update(group.check(may, of))
                group.time(time, lambda name, of: all(name in found.get(p, ()) for p in needed_checks(of)))

    def do_battery(
        self,
        op: str,
        done: dict[str, int],
        stored: dict[str, list[dict[str, Any]]],
        dtypes: list[str],
        quick: bool,
        distrusted: list[str],
        seed: int,
        interpreted: bool,
    ) -> None:
        """Try ways with everything the op's declaration gives rise to; `done` says how far each has come."""
        self._battery(op, seed, interpreted, distrusted).run(done, stored=stored, dtypes=dtypes, quick=quick)

    def do_search(
        self,
        op: str,
        impl: str,
        number: int,
        seconds: float,
        dtypes: list[str],
        distrusted: list[str],
        seed: int,
        interpreted: bool,
    ) -> None:
        """Draw trials beyond the battery for one way."""
        work = self._battery(op, seed, interpreted, distrusted)
        work.search(impl, number=number, seconds=seconds, seed=seed, dtypes=dtypes)

    def _battery(self, op: str, seed: int, interpreted: bool, distrusted: list[str]) -> BatteryWork:
        from kernellab.running.worker.battery import BatteryWork

        return BatteryWork(self.channel, self.ops[op], self.device, seed, interpreted, frozenset(distrusted))

    def do_profile(
        self, op: str, case: dict[str, Any], impls: list[str], series: list[dict[str, Any]], seed: int, rounds: int
    ) -> None:
        """What the profiler knows of each way: its kernels, what else one call does, kernel times if asked for."""
        from kernellab.running.worker.profile import profile_group

        with timing_lock(self.channel, self.device):
            profile_group(self._task(op, case, seed), impls, series, rounds)

    def do_inspect(
        self,
        op: str,
        request: dict[str, Any],
        work: list[dict[str, Any]],
        passes: list[str],
        gpu: str,
        folder: str,
        apart: bool,
        accounts: bool,
    ) -> None:
        """What ways compile to, architecture by architecture: their own launches, captured and read.

        `apart`: each in a fork of this process, as an author's code may remember what it asked of its device.
        `accounts`: bytes and lines are counted besides.
        """
        from kernellab.running.worker.inspection import Inspector

        for one in work:
            where = (self.device, one["arch"], gpu, Path(folder))
            inspector = Inspector(self.channel, self.ops[op], *where, cpu=one["cpu"], accounts=accounts)
            do = functools.partial(inspector.run, one["impls"], request, passes)
            self.channel.send("architecture", arch=one["arch"])
            self.channel.lend(do) if apart else do()

    def _task(self, op: str, case: dict[str, Any], seed: int) -> Task:
        from kernellab.running.worker.task import Task

        return Task(self.channel, self.ops[op], self.ops[op].case(case), self.device, seed)


def main() -> None:
    fd, lifeline, parent = map(int, sys.argv[1:4])
    kind = sys.argv[4]
    die_with_parent(parent, lifeline, fd)
    sys.path.append(str(Path.cwd()))  # last, so that nothing beside the user's files hides an installed module
    if kind == "interpreter":
        from kernellab.interpreter.emulation import prepare

        prepare()
    Worker(Channel(fd)).serve()


if __name__ == "__main__":
    main()
