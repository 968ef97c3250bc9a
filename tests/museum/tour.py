"""A tour of the museum: what catches each exhibit. Prints JSON, one line per exhibit and way.

    python tests/museum/tour.py [--device cpu] [--interpreter] [--without GUARD] [EXHIBIT …]

Triton's interpreter needs a process of its own: with `--interpreter` its exhibits are shown, else all others.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("exhibits", nargs="*")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--interpreter", action="store_true")
    parser.add_argument("--without", help="a guard to leave out")
    args = parser.parse_args()
    if args.interpreter:
        from kernellab.checking.interpreter import prepare

        prepare()
    import torch

    from kernellab import tried
    from kernellab.checking.examine import GUARDS
    from kernellab.targets import load, resolve
    from kernellab.verify import run

    device = torch.device(args.device)
    for file in sorted(HERE.glob("*.py")):
        if file.name == "tour.py" or (args.exhibits and file.stem not in args.exhibits):
            continue
        began = time.monotonic()
        (op,) = load(resolve(str(file))).values()
        names = [name for name in op.impls if name.endswith(("right", "wrong"))]
        interpreted = op[names[0]].kind.interpreted_on_cpu and device.type == "cpu"
        if interpreted is not args.interpreter or (op[names[0]].kind.obstacle(device.type) and not interpreted):
            continue
        found = run(op, [op[name] for name in names], device, guards=GUARDS - {args.without})
        for one in tried.summaries(found):
            kinds = sorted(
                {f["kind"] if f["kind"] != "calls" else f["label"].rsplit(" · ", 1)[1] for f in one["failures"]}
            )
            said = {k: one[k] for k in ("impl", "status", "tried", "passed", "unknown")}
            failures = [f"{f['kind']}: {f['label']}: {f['reason']}" for f in one["failures"][:3]]
            took = round(time.monotonic() - began, 1)
            print(json.dumps({"exhibit": file.stem, **said, "kinds": kinds, "failures": failures, "took_s": took}))
            sys.stdout.flush()


if __name__ == "__main__":
    main()
