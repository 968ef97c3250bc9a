"""The process that profiles ways of an op: one after the other, each in traces of its own."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import torch

from kernellab.blame import explain
from kernellab.case import Case, CaseRequest
from kernellab.checking.truth import gpu_is_dead, synchronise
from kernellab.collecting.ranges import range as named_range
from kernellab.collecting.schedule import Schedule
from kernellab.collecting.session import How, Session
from kernellab.declare import Impl, Op
from kernellab.errors import UserError
from kernellab.inputs import clone
from kernellab.machine.paths import file_name
from kernellab.passes import NotDifferentiable, pass_of
from kernellab.running.describe import choose_device
from kernellab.targets import Target, load

_WARM_CALLS = 3


def main() -> None:
    sys.path.append(str(Path.cwd()))
    asked: dict[str, Any] = json.loads(sys.argv[1])
    folder = Path(asked["folder"])
    found: list[dict[str, Any]] = []
    try:
        for one in _ways(asked, folder):
            found.append(one)
            (folder / "collected-0.json").write_text(json.dumps(found))  # now: the next way may end the process
    except UserError as error:
        print(f"klab: {error.message}", file=sys.stderr)
        if error.detail:
            print(error.detail, file=sys.stderr)
        sys.exit(2)


def _ways(asked: dict[str, Any], folder: Path) -> Any:
    device = choose_device(asked["device"])
    if device.type == "cuda":
        torch.cuda.set_device(device)
    ops = load(Target(**asked["target"]))
    if len(ops) > 1:
        raise UserError(f"{asked['target']['text']} declares {', '.join(ops)}: name one, FILE:{next(iter(ops))}")
    op = next(iter(ops.values()))
    case = op.expand(CaseRequest(**asked["request"]), device.type)[0]
    for impl in op.chosen(asked["impls"]):
        yield {"impl": impl.name, "op": op.name, "case": case.to_json(), **_way(op, impl, case, device, asked, folder)}
        if gpu_is_dead(device):
            return


def _way(op: Op, impl: Impl, case: Case, device: torch.device, asked: dict[str, Any], folder: Path) -> dict[str, Any]:
    skipped = {"name": impl.name, "traces": [], "steps": [], "notes": [], "status": "skipped"}
    reason = impl.kind.obstacle(device.type) or impl.refusal(case)
    if not reason and impl.kind.interpreted_on_cpu and device.type == "cpu":
        reason = "needs a GPU: interpreter time is not speed"
    if reason:
        return {**skipped, "reason": reason}
    schedule = Schedule(**asked["schedule"])
    name = f"{op.name}-{impl.name}"
    session = Session(folder, file_name(name), schedule, how=How(**asked["how"]), marked=True)
    try:
        call = _Calls(op, impl, case, asked["pass"], device)
        for _ in range(_WARM_CALLS):
            call.prepared()()
        synchronise(device)
        session.start()
        try:
            for number in range(schedule.steps):
                prepared = call.prepared()
                with named_range(f"step_{number}"):
                    prepared()
                session.step()
        finally:
            session.stop()
    except NotDifferentiable as no:
        return {**skipped, "reason": f"not differentiable: {no}"}
    except BaseException as error:  # SystemExit too: nothing a way raises may end the process
        return {**skipped, **session.to_json(), "status": "error", "reason": explain(error)}
    return {**session.to_json(), "status": "ok", "reason": ""}


class _Calls:
    """A way's calls, made ready one by one: some change their inputs, some use up a graph."""

    def __init__(self, op: Op, impl: Impl, case: Case, of: str, device: torch.device) -> None:
        self._op, self._impl, self._case, self._pass = op, impl, case, pass_of(of)
        self._inputs = self._pass.inputs(op, case, 0, device)

    def prepared(self) -> Any:
        inputs = clone(self._inputs) if self._impl.mutates else self._inputs
        ready = self._pass.prepare(self._op, self._impl.fn, inputs, self._case)
        if self._pass.name != "forward":
            return ready

        def call() -> Any:
            with torch.no_grad():
                return ready()

        return call
