"""One group of work inside a worker: an op, a case, the ways to check and to time there."""

from __future__ import annotations

import contextlib
import gc
import json
from collections.abc import Callable, Iterator
from typing import Any

import torch

from kernellab import inputs as make_inputs
from kernellab.blame import explain, user_frames
from kernellab.case import Case
from kernellab.checking.check import Checker
from kernellab.checking.truth import YardstickDied, gpu_is_dead, is_memory_error, synchronise, tensors_of
from kernellab.declare import Compiled, Cost, Impl, Op
from kernellab.running.channel import Channel, GpuGone, timing_lock
from kernellab.running.globalstate import guarded, settings_guarded
from kernellab.timing.rounds import Plan, rounds
from kernellab.timing.timers import timer_for

RECOMPILE_LIMIT = 64  # a check goes through every option value; a way that recompiles per call still hits it


class Failed(Exception):
    """A way failed while being timed."""

    def __init__(self, impl: str, error: BaseException) -> None:
        super().__init__(impl)
        self.impl, self.error = impl, error


class GroupWork:
    def __init__(
        self,
        channel: Channel,
        op: Op,
        case: Case,
        device: torch.device,
        seed: int,
        interpreted: bool,
        distrusted: frozenset[str],
    ) -> None:
        self.channel, self.op, self.case, self.device, self.seed = channel, op, case, device, seed
        self.interpreted = interpreted
        self.checker = Checker(
            op,
            case,
            seed=seed,
            device=device,
            interpreted=interpreted,
            running=channel.running,
            distrusted=distrusted,
        )
        forget_compiled(op)

    def close(self) -> None:
        """Give the memory back before the next case."""
        del self.checker
        gc.collect()
        if self.device.type == "cuda":
            torch.cuda.empty_cache()

    # Right? --------------------------------------------------------------------------------------------

    def check(self, names: list[str]) -> set[str]:
        """Check each way, send what was observed, and return the names of those that are right."""
        right = set()
        for name in names:
            impl = self.op[name]
            try:
                with self.channel.running(name, "check"), guarded(self._reporter(name)):
                    observed = self.checker.check(impl)
            except YardstickDied as died:
                self.channel.send("culprit", impl="torch", reason=f"GPU fault: {died}")
                raise GpuGone from None
            dead = observed["status"] not in ("ok", "skipped") and gpu_is_dead(self.device)
            if dead:
                observed |= {"status": "crashed", "reason": f"GPU fault: {observed['reason']}"}
            self.channel.send("check", impl=name, check=observed)
            if dead:
                raise GpuGone
            if observed["status"] == "ok":
                right.add(name)
        return right

    # How fast? -----------------------------------------------------------------------------------------

    def time(self, names: list[str], *, seconds: float, least: int) -> None:
        """Time the ways in interleaved rounds. One that fails is named, and the others start over without it."""
        if not names:
            return
        self.checker.forget()
        inputs = make_inputs.make(self.op, self.case, self.seed, self.device)
        self.channel.send("cost", cost=self._cost(inputs, names))
        with timing_lock(self.channel, self.device):
            while names:
                try:
                    self._rounds(names, inputs, Plan(seconds=seconds, least=least))
                    break
                except Failed as failed:
                    names = [name for name in names if name != failed.impl]
                    self._report_failure(failed)
        self.channel.send("timed", impls=names)

    def _rounds(self, names: list[str], inputs: make_inputs.Inputs, plan: Plan) -> None:
        timer = timer_for(self.device)
        calls = {name: self._call(self.op[name], inputs) for name in names}
        header = {"pass": "forward", "timer": timer.name, "cache": timer.cache}
        with torch.no_grad(), guarded(self._report_to_all(names)):
            for name in names:  # whatever is still to be built is built here, outside every sample
                with self._running(name, "build"):
                    calls[name]()
                    synchronise(self.device)
            samples = rounds(calls, timer, plan, seed=self.seed, running=lambda n: self._running(n, "time"))
            for number, sample in enumerate(samples):
                self.channel.send("round", **header, round=number, samples_us=sample)

    def _call(self, impl: Impl, inputs: make_inputs.Inputs) -> Callable[[], Any]:
        args = tuple((make_inputs.clone(inputs) if impl.mutates else inputs).values())
        options = self.op.call_options(self.case)
        fn = impl.fn
        return lambda: fn(*args, **options)

    @contextlib.contextmanager
    def _running(self, name: str, phase: str) -> Iterator[None]:
        with self.channel.running(name, phase), settings_guarded(self._reporter(name)):
            try:
                yield
            except BaseException as error:  # SystemExit too: nothing a way raises may end the worker
                raise Failed(name, error) from error

    def _report_failure(self, failed: Failed) -> None:
        error = failed.error
        status = "oom" if is_memory_error(error) else "error"
        reason = f"while timing: {explain(error)}"
        dead = gpu_is_dead(self.device)
        if dead:
            status, reason = "crashed", f"while timing: GPU fault: {explain(error)}"
        self.channel.send(
            "fault", impl=failed.impl, phase="time", status=status, reason=reason, traceback=user_frames(error)
        )
        self.channel.send("discard")
        if dead:
            raise GpuGone

    def _cost(self, inputs: make_inputs.Inputs, names: list[str]) -> dict[str, Any] | None:
        if self.op.cost is not None:
            try:
                cost = make_inputs.call(self.op, self.op.cost, inputs, self.case)
                if not isinstance(cost, Cost):
                    raise TypeError(f"cost= returned a {type(cost).__name__}, not a kl.Cost")
                counted = cost.to_json()
                json.dumps(counted, allow_nan=False)
                return counted
            except Exception as error:  # the op's own mistake: timings stand, the limit is unknown
                self._report_to_all(names)(f"the limit is not known: cost= failed: {explain(error)}")
                return None
        # By default every input is read once and every output written once.
        sizes = {k: None if t is None else t.to("meta") for k, t in inputs.items()}
        try:
            outputs = tensors_of(make_inputs.call(self.op, self.op.reference, sizes, self.case))
        except Exception:  # a reference that needs real data
            with torch.no_grad():
                outputs = tensors_of(make_inputs.call(self.op, self.op.reference, inputs, self.case))
        return Cost(read=list(inputs.values()), write=outputs).to_json()

    # Faults --------------------------------------------------------------------------------------------

    def _reporter(self, name: str) -> Callable[[str], None]:
        return lambda what: self.channel.send("guard", impl=name, guard={"name": "global-state", "detail": what})

    def _report_to_all(self, names: list[str]) -> Callable[[str], None]:
        """For what cannot be laid at one way's door."""

        def report(what: str) -> None:
            for name in names:
                self._reporter(name)(f"while timing, {what}" if what.startswith("replaced") else what)

        return report


def forget_compiled(op: Op) -> None:
    """Compiled functions of one source share one recompile limit; each case starts afresh."""
    torch._dynamo.reset()
    torch._dynamo.config.recompile_limit = RECOMPILE_LIMIT
    for impl in op.impls.values():
        if isinstance(impl.fn, Compiled):
            impl.fn.reset()
