"""The process that profiles ways of an op: one after the other, each in traces of its own."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import torch

from kernellab.base.errors import UserError, nearest
from kernellab.base.paths import file_name
from kernellab.base.user_code import explain
from kernellab.declaration.case import Case
from kernellab.declaration.case_request import CaseRequest
from kernellab.declaration.cost import CostFailed, cost_of_pass
from kernellab.declaration.documents import CostJson
from kernellab.declaration.inputs import Inputs, clone
from kernellab.declaration.kinds import match_names
from kernellab.declaration.op import Impl, Op
from kernellab.declaration.passes import NotDifferentiable, pass_of
from kernellab.declaration.targets import Target, load
from kernellab.machine.gpu_state import gpu_is_dead, synchronise
from kernellab.profiler.ranges import range as named_range
from kernellab.profiler.schedule import COLLECTED, Schedule
from kernellab.profiler.session import How, Session
from kernellab.running.worker.describe import choose_device

_WARM_CALLS = 3


def main() -> None:
    sys.path.append(str(Path.cwd()))
    asked: dict[str, Any] = json.loads(sys.argv[1])
    folder = Path(asked["folder"])
    found: list[dict[str, Any]] = []
    try:
        for one in _ways(asked, folder):
            found.append(one)
            (folder / f"0{COLLECTED}").write_text(json.dumps(found))  # now: the next way may end the process
    except UserError as error:
        error.report()
        sys.exit(2)


def opened(asked: dict[str, Any]) -> tuple[torch.device, Op, Case]:
    """What a request means, refused where it means nothing."""
    device = choose_device(asked["device"])
    if device.type == "cuda":
        torch.cuda.set_device(device)
    ops = load(Target(**asked["target"]))
    if len(ops) > 1:
        raise UserError(f"{asked['target']['text']} declares {', '.join(ops)}: name one, FILE:{next(iter(ops))}")
    op = next(iter(ops.values()))
    for name in asked["impls"]:
        if not match_names(name, op.impls):
            raise UserError(f"no implementation {name!r} of {op.name}: {nearest(name, op.impls)}")
    return device, op, op.expand(CaseRequest(**asked["request"]), device.type)[0]


def _ways(asked: dict[str, Any], folder: Path) -> Any:
    device, op, case = opened(asked)
    with _Capture(device, asked["tool"]) as capture:
        for impl in op.select_impls(asked["impls"]):
            way = Way(op, impl, case, device, asked)
            found = _recorded(way, folder) if asked["tool"] is None else _captured(way, capture)
            yield {"impl": impl.name, "op": op.name, "case": case.to_json(), **found}
            if gpu_is_dead(device):
                return


class Way:
    """A way's calls, made ready one by one: some change their inputs, some use up a graph."""

    def __init__(self, op: Op, impl: Impl, case: Case, device: torch.device, asked: dict[str, Any]) -> None:
        self.op, self.impl, self.case, self.device = op, impl, case, device
        self.schedule, self.how = Schedule(**asked["schedule"]), How(**asked["how"])
        self._pass = pass_of(asked["pass"])
        self._inputs: Inputs = {}

    def refusal(self) -> str | None:
        kind = self.impl.kind
        if kind.interpreted_on_cpu and self.device.type == "cpu":
            return "needs a GPU: interpreter time is not speed"
        return kind.obstacle(self.device.type) or self.impl.refusal(self.case)

    def warm(self) -> None:
        self._inputs = self._pass.inputs(self.op, self.case, 0, self.device)
        for _ in range(_WARM_CALLS):
            self.prepared()()
        synchronise(self.device)

    def prepared(self) -> Any:
        inputs = clone(self._inputs) if self.impl.mutates else self._inputs
        ready = self._pass.prepare(self.op, self.impl.fn, inputs, self.case)
        return torch.no_grad()(ready) if self._pass.name == "forward" else ready

    def cost(self) -> CostJson | None:
        """The cost of the pass, where the op declares it; after `warm`."""
        try:
            cost = cost_of_pass(self.op, self._pass.name, self._inputs, self.case)
        except CostFailed:  # what is counted stays valid
            return None
        return None if cost.get("assumed") else cost

    def step(self, number: int) -> None:
        prepared = self.prepared()
        with named_range(f"step_{number}"):
            prepared()


def _recorded(way: Way, folder: Path) -> dict[str, Any]:
    """By our own profiler."""
    session = Session(folder, file_name(f"{way.op.name}-{way.impl.name}"), way.schedule, how=way.how, marked=True)

    def steps() -> None:
        session.start()
        try:
            for number in range(way.schedule.steps):
                way.step(number)
                session.step()
        finally:
            session.stop()

    ended = outcome(way, steps)
    return {**session.to_json(), **ended}


def _captured(way: Way, capture: _Capture) -> dict[str, Any]:
    """By a tool that watches from outside."""

    def steps() -> None:
        capture.begin()
        with named_range(way.impl.name):
            for number in range(way.schedule.active):
                way.step(number)
            synchronise(way.device)

    return {"name": way.impl.name, "traces": [], "steps": [], "notes": [], **outcome(way, steps)}


def outcome(way: Way, steps: Any) -> dict[str, Any]:
    try:
        reason = way.refusal()
        if reason:
            return {"status": "skipped", "reason": reason}
        way.warm()
        steps()
    except NotDifferentiable as no:
        return {"status": "skipped", "reason": f"not differentiable: {no}"}
    except BaseException as error:  # SystemExit too: nothing a way raises may end the process
        return {"status": "error", "reason": explain(error)}
    return {"status": "ok", "reason": ""}


class _Capture:
    """What a tool of NVIDIA's records: from the first way's first call to the last one's last."""

    def __init__(self, device: torch.device, tool: str | None) -> None:
        self._wanted = tool is not None and device.type == "cuda"
        self._begun = False

    def begin(self) -> None:
        if self._wanted and not self._begun:
            self._begun = True
            torch.cuda.cudart().cudaProfilerStart()

    def __enter__(self) -> _Capture:
        return self

    def __exit__(self, *_: object) -> None:
        if self._begun:
            torch.cuda.cudart().cudaProfilerStop()
