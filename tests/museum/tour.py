"""A tour of the museum: what catches each exhibit. Prints JSON, one line per exhibit and implementation.

    python tests/museum/tour.py [--device cpu] [--interpreter] [--quick] [EXHIBIT[:GUARD] …]

`EXHIBIT:GUARD` tries the wrong implementation of an exhibit without that guard. Triton's interpreter
needs a separate process: `--interpreter` tries the exhibits that need it, otherwise all others are tried.
"""

from __future__ import annotations

import argparse
import json
import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kernellab.declaration.case import ELLIPSIS, jsonable
from kernellab.declaration.case_request import CaseRequest
from kernellab.trials import calls

HERE = Path(__file__).resolve().parent
NOT_EXHIBITS = ("tour.py", "alone.py", "test_museum.py")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("exhibits", nargs="*")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--interpreter", action="store_true")
    parser.add_argument("--quick", action="store_true", help="the quick battery, where it catches the wrong version")
    parser.add_argument("--scripts", action="store_true", help="add scripts that reproduce each kind of failure")
    args = parser.parse_args()
    if args.interpreter:
        from kernellab.interpreter.emulation import enable_interpreter

        enable_interpreter()
    import torch

    from kernellab.api.check import run
    from kernellab.checking.examiner import GUARDS
    from kernellab.declaration.targets import load, resolve

    device = torch.device(args.device)
    all_exhibits = sorted(file.stem for file in HERE.glob("*.py") if file.name not in NOT_EXHIBITS)
    for request in args.exhibits or all_exhibits:
        name, _, without = request.partition(":")
        began = time.monotonic()
        (op,) = load(resolve(str(HERE / f"{name}.py"))).values()
        impls = [impl for impl in op.impls.values() if impl.name.endswith("wrong" if without else ("right", "wrong"))]
        interpreted = impls[0].kind.interpreted_on_cpu and device.type == "cpu"
        impossible = impls[0].kind.obstacle(device.type) is not None and not interpreted
        if interpreted is not args.interpreter or impossible:
            continue
        entries = run(op, impls, device, guards=GUARDS - {without}, quick=args.quick)
        if args.quick and not without and not any(map(failed, entries)):
            entries = run(op, impls, device)
        for impl in impls:
            own = [entry for entry in entries if entry["impl"] == impl.name]
            line = {"exhibit": name, "without": without, "impl": impl.name, "tried": len(own)}
            failures = [describe(entry, op) for entry in own if failed(entry)]
            if args.scripts:
                line["scripts"] = scripts(op, impl, [entry for entry in own if failed(entry)], args.interpreter)
            took_s = round(time.monotonic() - began, 1)
            print(json.dumps({**line, "failures": failures, "took_s": took_s}), flush=True)


def failed(entry: dict) -> bool:
    return entry["status"] in ("wrong", "error")


def describe(entry: dict, op: Any) -> dict:
    """A failure, and in what its trial differs from an ordinary one."""
    trial = entry["trial"]
    varied = [trial["kind"], trial["call"]]
    varied += ["gradients"] if trial["of"] != "forward" else []
    varied += ["layouts"] if trial["layouts"] else []
    varied += (
        ["ranks"] if _rank(trial["case"]["dims"]) != _rank(op.expand(CaseRequest(quick=True), "cpu")[0].dims) else []
    )
    varied += ["indices" if op.args[name].is_index else "values" for name in trial["values"]]
    varied += ["dtypes"] if trial["case"]["dtype"] != op.dtypes[0] else []
    defaults = {name: jsonable(values[0]) for name, values in op.all_options().items()}
    varied += ["options"] if trial["case"]["options"] != defaults else []
    return {"varied": sorted(set(varied) - {calls.PLAIN, "calls"}), "label": trial["label"], "reason": entry["reason"]}


def _rank(dims: Mapping[str, Any]) -> int:
    return len(dims.get(ELLIPSIS, ()))


def scripts(op: Any, impl: Any, failures: list[dict], interpreted: bool) -> list[dict]:
    """Scripts that reproduce one failure of each kind without kernellab."""
    from kernellab.checking.outcome import Outcome
    from kernellab.reproduction.script import write_script
    from kernellab.trials.trial import Trial

    by_kind = {}
    for entry in failures:
        kind = entry["trial"]["of"], entry["status"], re.sub("[^a-z ]", "", entry["reason"])[:20]
        by_kind.setdefault(kind, entry)
    written = []
    for entry in by_kind.values():
        trial, outcome = Trial.from_json(entry["trial"], op), Outcome(entry["status"], entry["reason"])
        script = write_script(op, impl, trial, outcome, seed=0, interpreted=interpreted)
        failure = {"status": outcome.status, "reason": outcome.reason, "trial": entry["trial"]["label"]}
        written.append({"exhibit": op.file.stem, **failure, "script": script.text})
    return written


if __name__ == "__main__":
    main()
