"""What `klab profile` is asked to run: an op, the MLP or a script, as a process to start."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernellab.base.errors import UserError, nearest
from kernellab.cli.begin import absolute
from kernellab.cli.options import case_arguments, case_request, device_in, positive, project_defaults
from kernellab.declaration.case_request import parse_sizes

if TYPE_CHECKING:
    from kernellab.record.settings import Settings
    from kernellab.running.parent.profiling import Program

_SECONDS = 20.0
_LONGEST_NAME = 50  # of a trace, in characters: file systems take 255 bytes, with what stands after it
_TRACES = (".json", ".gz", ".sqlite", ".nsys-rep", ".ncu-rep")
_OF_OPS = ("impl", "shape", "dtype", "opt", "passes")
_OF_MLP = ("dim", "layers", "batch", "steps", "optimizer", "rate", "data", "workers")


@dataclass(frozen=True)
class Made:
    """A program by name; its process is made once there is a folder for its traces."""

    name: str
    settings: Settings
    program: Callable[[Path], Program]


@dataclass(frozen=True)
class Study:
    """The MLP timed over sizes, one after the other."""

    settings: Settings
    setup: dict[str, Any]
    programs: Callable[[Path], Iterator[tuple[str, Program]]]


def arguments(sub: argparse.ArgumentParser) -> None:
    from kernellab.running.parent.profiling import OPTIMIZERS, RATES, SIZES

    ops = sub.add_argument_group("an op")
    case_arguments(ops)
    ops.add_argument("--pass", dest="passes", metavar="P", help="forward, backward, both (default forward)")
    mlp = sub.add_argument_group("mlp", "sizes may be several, 64:1024:x2: then time is measured against them")
    for name, default in SIZES.items():
        mlp.add_argument(f"--{name}", metavar="N", help=f"default {default}")
    mlp.add_argument("--optimizer", metavar="O", help=f"{', '.join(OPTIMIZERS)} (default none)")
    mlp.add_argument("--rate", metavar="R", help=f"the learning rate over the steps: {', '.join(RATES)}")
    mlp.add_argument("--data", action="store_true", help="batches from a data loader instead of one and the same")
    mlp.add_argument("--workers", type=int, metavar="N", help="processes of the data loader (default 0)")


def made(args: argparse.Namespace, rest: list[str]) -> Made | Study:
    """The program a command line means, refused here where it cannot be run."""
    targets = args.target
    if args.module:
        if targets:
            raise UserError(f"-m {args.module} names the program: {targets[0]!r} is one too many")
        return _script(args, rest, args.module)
    if not targets:
        raise UserError("nothing to profile: klab profile gelu, klab profile mlp or klab profile train.py -- ITS ARGS")
    if len(targets) > 1:
        raise UserError(f"one program at a time, not {len(targets)}: a script's own arguments come after --")
    if targets[0] == "mlp":
        return _mlp(args, rest)
    if is_script(targets[0]):
        return _script(args, rest, targets[0])
    return _op(args, rest)


def is_script(target: str) -> bool:
    """A file that declares no op: read, not executed."""
    from kernellab.declaration.catalogue import parse

    path = Path(target)
    if path.suffix in _TRACES:
        raise UserError(f"{target} is a trace, it seems: klab profile --open {target}")
    if path.suffix != ".py":
        return path.is_file()
    if not path.is_file():
        raise UserError(f"no file {target}")
    found = parse(path)
    return not any(entry.impls for entry in found.values())  # a file that cannot be read has none either


def settings_of(args: argparse.Namespace, target: str) -> Settings:
    from kernellab.record.settings import NO_CASES, Settings

    return Settings(targets=[target], stages=["profile"], request=NO_CASES, device=device_in(args.device))


def _how(args: argparse.Namespace) -> dict[str, bool]:
    return {"stacks": not args.no_stacks}


def _schedule(args: argparse.Namespace) -> dict[str, Any] | None:
    from kernellab.running.parent.profiling import schedule

    return schedule(args.schedule).to_json() if args.schedule else None


def _unasked(args: argparse.Namespace, names: tuple[str, ...], whose: str) -> None:
    for name in names:
        if getattr(args, name):
            raise UserError(f"--{'pass' if name == 'passes' else name} is an option of {whose}")


# A script ----------------------------------------------------------------------------------------------


def _script(args: argparse.Namespace, rest: list[str], target: str) -> Made:
    from kernellab.running.parent.profiling import Program

    if rest:
        raise UserError(f"no option {rest[0]}: the script's own arguments come after --, as in {target} -- {rest[0]}")
    _unasked(args, _OF_OPS, "ops")
    _unasked(args, _OF_MLP, "the MLP")
    if args.device:
        raise UserError("--device: a script chooses its device itself")
    name = target.rpartition(".")[2] if args.module else Path(target).stem
    seconds = positive("--seconds", args.seconds) if args.seconds is not None else _SECONDS
    gib = positive("--memory", args.memory) if args.memory is not None else None
    ranks = _ranks(args)
    asked = {
        "module": bool(args.module),
        "name": "".join(c if c.isalnum() or c in "-_" else "-" for c in name)[:_LONGEST_NAME],
        "schedule": _schedule(args),
        "seconds": seconds,
        "memory_bytes": None if gib is None else int(gib * (1 << 30)),
        "how": _how(args),
    }

    def program(folder: Path) -> Program:
        full = {**asked, "folder": str((folder / "artifacts").resolve())}
        words = [target, *args.words]
        return Program(
            "kernellab.running.programs.profiled_script", full, words, ranks, as_script=True, module=bool(args.module)
        )

    return Made(name, settings_of(args, target), program)


# The MLP -----------------------------------------------------------------------------------------------


def _mlp(args: argparse.Namespace, rest: list[str]) -> Made | Study:
    from kernellab.running.parent.profiling import OPTIMIZERS, RATES, SIZES, Program, refuse, schedule

    if rest or args.words:
        raise UserError(f"mlp takes no {(rest + args.words)[0]!r}: klab profile --help lists its options")
    _unasked(args, _OF_OPS, "ops")
    _unasked(args, ("seconds", "memory"), "scripts")
    sizes = {
        name: [default] if getattr(args, name) is None else parse_sizes(name, getattr(args, name))
        for name, default in SIZES.items()
    }
    setup: dict[str, Any] = {
        "optimizer": _one("optimizer", args.optimizer, OPTIMIZERS),
        "rate": _one("rate", args.rate, RATES),
        "data": args.data,
        "workers": args.workers or 0,
        "device": device_in(args.device),
    }
    if setup["rate"] != "constant" and setup["optimizer"] == "none":
        raise UserError("--rate is of an optimizer: --optimizer adam, for example")
    if args.workers and not args.data:
        raise UserError("--workers are of the data loader: --data asks for one")
    settings, ranks = settings_of(args, "mlp"), _ranks(args)
    swept = [name for name, values in sizes.items() if len(values) > 1]
    if swept:
        return _study(args, sizes, setup, settings, swept)
    setup |= {name: values[0] for name, values in sizes.items()}
    refuse(setup, schedule(args.schedule) if args.schedule else None, tracing=True)
    do = "train" if args.tool else "profile"
    asked = {"do": do, "setup": setup, "schedule": _schedule(args), "how": _how(args)}

    def program(folder: Path) -> Program:
        full = {**asked, "folder": str((folder / "artifacts").resolve())}
        return Program("kernellab.running.programs.mlp", full, ranks=ranks)

    return Made("mlp", settings, program)


def _study(
    args: argparse.Namespace, sizes: dict[str, list[int]], setup: dict[str, Any], settings: Settings, swept: list[str]
) -> Study:
    from kernellab.running.parent.profiling import SIZES, Program, refuse

    for name in ("ranks", "schedule", "tool"):
        if getattr(args, name):
            raise UserError(f"several sizes are timed, not traced: leave out --{'with' if name == 'tool' else name}")
    # While one size varies, the others are at their default; one that was given several, at its first.
    fixed = {name: values[0] if len(values) == 1 else SIZES[name] for name, values in sizes.items()}

    def programs(folder: Path) -> Iterator[tuple[str, Program]]:
        for by in swept:
            setups = [{**setup, **fixed, by: size} for size in sizes[by]]
            for one in setups:
                refuse(one, None, tracing=False)
            asked = {"do": "scale", "by": by, "setups": setups, "folder": str((folder / "artifacts").resolve())}
            yield by, Program("kernellab.running.programs.mlp", asked)

    return Study(settings, {**setup, **fixed}, programs)


def _ranks(args: argparse.Namespace) -> int:
    ranks = 1 if args.ranks is None else args.ranks
    positive("--ranks", ranks, 1024)
    if ranks > 1 and args.tool:
        raise UserError(f"--with {args.tool} records one process: leave out --ranks")
    return int(ranks)


def _one(name: str, value: str | None, known: tuple[str, ...]) -> str:
    if value is not None and value not in known:
        raise UserError(f"--{name} {value}: {nearest(value, known)}")
    return value or known[0]


# An op -------------------------------------------------------------------------------------------------


def op_asked(args: argparse.Namespace, rest: list[str]) -> dict[str, Any]:
    """What the process is asked that runs an op's ways, but for the folder."""
    from kernellab.declaration.targets import resolve
    from kernellab.running.parent.profiling import DEFAULT

    _unasked(args, (*_OF_MLP, "ranks"), "the MLP")
    _unasked(args, ("seconds", "memory"), "scripts")
    if args.words:
        raise UserError(f"an op takes no arguments after --: {args.words[0]!r}")
    target = resolve(args.target[0])
    args.quick = False
    request = case_request(args, rest)
    defaults = project_defaults()
    impls = args.impl or defaults.get("impl", "")
    return {
        "target": vars(target),
        "request": {**request.to_json(), "quick": not (request.shapes or request.dims)},
        "impls": [part.strip() for part in impls.split(",") if part.strip()],
        "pass": _one("pass", args.passes, ("forward", "backward", "both")),
        "device": device_in(args.device or defaults.get("device")),
        "schedule": _schedule(args) or DEFAULT.to_json(),
        "how": _how(args),
        "tool": args.tool,
    }


def _op(args: argparse.Namespace, rest: list[str]) -> Made:
    from kernellab.running.parent.profiling import Program

    asked = op_asked(args, rest)
    settings = settings_of(args, absolute(args.target[0]))

    def program(folder: Path) -> Program:
        return Program(
            "kernellab.running.programs.profiled_op", {**asked, "folder": str((folder / "artifacts").resolve())}
        )

    return Made(asked["target"]["op"] or Path(args.target[0]).stem, settings, program)
