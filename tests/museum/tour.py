"""A tour of the museum: what catches each exhibit. Prints JSON, one line per exhibit and way.

    python tests/museum/tour.py [--device cpu] [--interpreter] [--quick] [EXHIBIT[:GUARD] …]

With a guard behind its name an exhibit's wrong way is shown without that guard. Triton's interpreter needs a process of
its own: with `--interpreter` its exhibits are shown, else all others.
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

HERE = Path(__file__).resolve().parent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("exhibits", nargs="*")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--interpreter", action="store_true")
    parser.add_argument("--quick", action="store_true", help="the small battery, where it catches the wrong way")
    parser.add_argument("--scripts", action="store_true", help="with what reproduces a failure of each sort")
    args = parser.parse_args()
    if args.interpreter:
        from kernellab.interpreter.emulation import prepare

        prepare()
    import torch

    from kernellab.api.check import run
    from kernellab.checking.examiner import GUARDS
    from kernellab.declaration.targets import load, resolve

    device = torch.device(args.device)
    every = sorted(file.stem for file in HERE.glob("*.py") if file.name not in ("tour.py", "alone.py"))
    for asked in args.exhibits or every:
        name, _, without = asked.partition(":")
        began = time.monotonic()
        (op,) = load(resolve(str(HERE / f"{name}.py"))).values()
        ways = [way for way in op.impls.values() if way.name.endswith("wrong" if without else ("right", "wrong"))]
        interpreted = ways[0].kind.interpreted_on_cpu and device.type == "cpu"
        impossible = ways[0].kind.obstacle(device.type) is not None and not interpreted
        if interpreted is not args.interpreter or impossible:
            continue
        found = run(op, ways, device, guards=GUARDS - {without}, quick=args.quick)
        if args.quick and not without and not any(failed(one) for one in found):
            found = run(op, ways, device)
        for way in ways:
            mine = [one for one in found if one["impl"] == way.name]
            said = {"exhibit": name, "without": without, "way": way.name, "tried": len(mine)}
            failures = [told(one, op) for one in mine if failed(one)]
            if args.scripts:
                said["scripts"] = scripts(op, way, [one for one in mine if failed(one)], args.interpreter)
            took_s = round(time.monotonic() - began, 1)
            print(json.dumps({**said, "failures": failures, "took_s": took_s}), flush=True)


def failed(one: dict) -> bool:
    return one["status"] in ("wrong", "error")


def told(one: dict, op: Any) -> dict:
    """A failure, and everything that this trial has and an ordinary one has not: without any of it, it is lost."""
    trial = one["trial"]
    varied = [trial["kind"], trial["call"]]
    varied += ["gradients"] if trial["of"] != "forward" else []
    varied += (
        ["ranks"] if _rank(trial["case"]["dims"]) != _rank(op.expand(CaseRequest(quick=True), "cpu")[0].dims) else []
    )
    varied += ["indices" if op.args[name].is_index else "values" for name in trial["values"]]
    varied += ["dtypes"] if trial["case"]["dtype"] != op.dtypes[0] else []
    defaults = {name: jsonable(values[0]) for name, values in op.all_options().items()}
    varied += ["options"] if trial["case"]["options"] != defaults else []
    return {"varied": sorted(set(varied) - {"plainly", "calls"}), "label": trial["label"], "reason": one["reason"]}


def _rank(dims: Mapping[str, Any]) -> int:
    return len(dims.get(ELLIPSIS, ()))


def scripts(op: Any, way: Any, failures: list[dict], interpreted: bool) -> list[dict]:
    """What reproduces a failure of each sort without kernellab."""
    from kernellab.reproduction.script import script
    from kernellab.trials.trial import Trial

    sorts = {}
    for one in failures:
        trial = one["trial"]
        sort = trial["of"], one["status"], re.sub("[^a-z ]", "", one["reason"])[:20]
        sorts.setdefault(sort, one)
    found = []
    for one in sorts.values():
        made = script(op, way, Trial.from_json(one["trial"], op), one, seed=0, interpreted=interpreted)
        told = {"status": one["status"], "reason": one["reason"], "trial": one["trial"]["label"]}
        found.append({"exhibit": op.file.stem, **told, "script": made.text})
    return found


if __name__ == "__main__":
    main()
