"""The programs that `klab profile` runs: an op, the MLP or a script, each as a process to start."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kernellab.base.errors import UserError
from kernellab.cli.options import (
    PASSES,
    absolute_target,
    add_case_options,
    choose,
    parse_device,
    refuse_options,
    require_positive,
    sized_request,
    split_commas,
)
from kernellab.cli.project import project_text
from kernellab.declaration.case_request import parse_sizes

if TYPE_CHECKING:
    from kernellab.profiler.protocol import MlpRequest, OpRequest, RecordingOptionsJson, ScriptRequest
    from kernellab.profiler.schedule import Schedule
    from kernellab.record.settings import Settings
    from kernellab.running.parent.profiling import Program
    from kernellab.workloads.mlp_setup import MlpSetup

_SECONDS = 20.0
_LONGEST_NAME = 50  # of a trace, in characters: file systems take 255 bytes, suffixes included
_TRACES = (".json", ".gz", ".sqlite", ".nsys-rep", ".ncu-rep")
_OP_OPTIONS = ("impl", "shape", "dtype", "opt", "passes")
_MLP_OPTIONS = ("dim", "layers", "batch", "steps", "optimizer", "rate", "data", "workers")
_SCRIPT_OPTIONS = ("seconds", "memory")


@dataclass(frozen=True)
class PlannedProgram:
    """A program to profile. `program` describes its process, given the folder of the run."""

    name: str
    settings: Settings
    program: Callable[[Path], Program]


@dataclass(frozen=True)
class SizeStudy:
    """The MLP timed over sizes. `programs` has one program for each option with several sizes."""

    settings: Settings
    setup: MlpSetup
    programs: Callable[[Path], Iterator[tuple[str, Program]]]


def add_options(parser: argparse.ArgumentParser) -> None:
    from kernellab.workloads.mlp_setup import DEFAULT_SIZES, OPTIMIZERS, RATES

    op = parser.add_argument_group("options for an op")
    add_case_options(op)
    op.add_argument("--pass", dest="passes", metavar="P", help="forward, backward, both (default forward)")
    mlp = parser.add_argument_group(
        "options for mlp", "several sizes, 64:1024:x2, are timed and compared instead of traced"
    )
    for name, default in DEFAULT_SIZES.items():
        mlp.add_argument(f"--{name}", metavar="N", help=f"default {default}")
    mlp.add_argument("--optimizer", metavar="O", help=f"{', '.join(OPTIMIZERS)} (default none)")
    mlp.add_argument("--rate", metavar="R", help=f"the learning rate over the steps: {', '.join(RATES)}")
    mlp.add_argument("--data", action="store_true", help="get each batch from a data loader")
    mlp.add_argument("--workers", type=int, metavar="N", help="processes of the data loader (default 0)")


def plan(args: argparse.Namespace) -> PlannedProgram | SizeStudy:
    """The program that a command line names; a UserError if it cannot be run."""
    targets = args.target
    if args.module:
        if targets:
            raise UserError(f"-m {args.module} already names the program: leave out {targets[0]!r}")
        return _script(args, args.module)
    if not targets:
        raise UserError("nothing to profile: klab profile gelu, klab profile mlp or klab profile train.py -- ITS ARGS")
    if len(targets) > 1:
        raise UserError(f"one program at a time, not {len(targets)}: a script's own arguments come after --")
    if targets[0] == "mlp":
        return _mlp(args)
    if is_script(targets[0]):
        return _script(args, targets[0])
    return _op(args)


def is_script(target: str) -> bool:
    """Whether it is a file that declares no op. The file is read, not executed."""
    from kernellab.declaration.catalogue import parse

    path = Path(target)
    if path.suffix in _TRACES:
        raise UserError(f"{target} looks like a trace: klab profile --open {target}")
    if path.suffix != ".py":
        return path.is_file()
    if not path.is_file():
        raise UserError(f"no file {target}")
    return not any(entry.impls for entry in parse(path).values())  # a file with a syntax error declares none either


def settings_for(args: argparse.Namespace, target: str) -> Settings:
    from kernellab.record.settings import NO_CASES, Settings

    return Settings(targets=[target], stages=["profile"], request=NO_CASES, device=parse_device(args.device))


def _recording_options(args: argparse.Namespace) -> RecordingOptionsJson:
    return {"stacks": not args.no_stacks}


def _schedule(args: argparse.Namespace) -> Schedule | None:
    from kernellab.profiler.schedule import parse_schedule

    return parse_schedule(args.schedule) if args.schedule else None


def _refuse_other_options(args: argparse.Namespace, **owners: tuple[str, ...]) -> None:
    for owner, names in owners.items():
        refuse_options(args, names, f"is an option of {owner.replace('_', ' ')}")


# A script ----------------------------------------------------------------------------------------------


def _script(args: argparse.Namespace, target: str) -> PlannedProgram:
    from kernellab.running.parent.profiling import Program

    if args.dims:
        option = f"--{next(iter(args.dims))}"
        raise UserError(f"a script has no dims: its own arguments come after --, as in {target} -- {option}")
    _refuse_other_options(args, ops=_OP_OPTIONS, the_MLP=_MLP_OPTIONS)
    if args.device:
        raise UserError("--device: a script chooses its device itself")
    name = target.rpartition(".")[2] if args.module else Path(target).stem
    seconds = require_positive("--seconds", args.seconds) if args.seconds is not None else _SECONDS
    memory_gib = require_positive("--memory", args.memory) if args.memory is not None else None
    ranks, schedule = _ranks(args), _schedule(args)

    def program(folder: Path) -> Program:
        request: ScriptRequest = {
            "module": bool(args.module),
            "name": "".join(c if c.isalnum() or c in "-_" else "-" for c in name)[:_LONGEST_NAME],
            "schedule": schedule.to_json() if schedule else None,
            "seconds": seconds,
            "memory_bytes": None if memory_gib is None else int(memory_gib * (1 << 30)),
            "how": _recording_options(args),
            "folder": _artifacts(folder),
        }
        main, words = "kernellab.running.programs.profiled_script", [target, *args.script_arguments]
        return Program(main, request, words, ranks, as_script=True, module=bool(args.module))

    return PlannedProgram(name, settings_for(args, target), program)


def _artifacts(folder: Path) -> str:
    return str((folder / "artifacts").resolve())


# The MLP -----------------------------------------------------------------------------------------------


def _mlp(args: argparse.Namespace) -> PlannedProgram | SizeStudy:
    from kernellab.running.parent.profiling import Program, validate_mlp
    from kernellab.workloads.mlp_setup import DEFAULT_SIZES

    for word in (*(f"--{dim}" for dim in args.dims), *args.script_arguments):
        raise UserError(f"mlp takes no {word!r}: klab profile --help lists its options")
    _refuse_other_options(args, ops=_OP_OPTIONS, scripts=_SCRIPT_OPTIONS)
    sizes = {
        name: [default] if getattr(args, name) is None else parse_sizes(name, getattr(args, name))
        for name, default in DEFAULT_SIZES.items()
    }
    ranks, schedule = _ranks(args), _schedule(args)
    varied = [name for name, values in sizes.items() if len(values) > 1]
    if varied:
        return _size_study(args, sizes, varied)
    setup = _mlp_setup(args, {name: values[0] for name, values in sizes.items()})
    validate_mlp(setup, schedule, tracing=True)

    def program(folder: Path) -> Program:
        request: MlpRequest = {
            "do": "train" if args.tool else "profile",
            "setup": setup.to_json(),
            "schedule": schedule.to_json() if schedule else None,
            "how": _recording_options(args),
            "folder": _artifacts(folder),
        }
        return Program("kernellab.running.programs.mlp", request, ranks=ranks)

    return PlannedProgram("mlp", settings_for(args, "mlp"), program)


def _mlp_setup(args: argparse.Namespace, sizes: dict[str, int]) -> MlpSetup:
    from kernellab.workloads.mlp_setup import OPTIMIZERS, RATES, MlpSetup

    optimizer = choose("--optimizer", args.optimizer or OPTIMIZERS[0], OPTIMIZERS)
    rate = choose("--rate", args.rate or RATES[0], RATES)
    if rate != "constant" and optimizer == "none":
        raise UserError("--rate needs an optimizer: --optimizer adam, for example")
    if args.workers and not args.data:
        raise UserError("--workers needs the data loader: add --data")
    return MlpSetup(
        **sizes,
        optimizer=optimizer,
        rate=rate,
        data=args.data,
        workers=args.workers or 0,
        device=parse_device(args.device),
    )


def _size_study(args: argparse.Namespace, sizes: dict[str, list[int]], varied: list[str]) -> SizeStudy:
    from kernellab.running.parent.profiling import Program, validate_mlp
    from kernellab.workloads.mlp_setup import DEFAULT_SIZES

    for name in ("ranks", "schedule", "tool"):
        if getattr(args, name):
            raise UserError(f"several sizes are timed, not traced: leave out {args.given[name]}")
    # While one size varies, another that also has several values is at its default.
    fixed = {name: values[0] if len(values) == 1 else DEFAULT_SIZES[name] for name, values in sizes.items()}
    setup = _mlp_setup(args, fixed)

    def programs(folder: Path) -> Iterator[tuple[str, Program]]:
        for by in varied:
            setups = [_mlp_setup(args, {**fixed, by: size}) for size in sizes[by]]
            for each in setups:
                validate_mlp(each, None, tracing=False)
            request: MlpRequest = {
                "do": "scale",
                "by": by,
                "setups": [each.to_json() for each in setups],
                "folder": _artifacts(folder),
            }
            yield by, Program("kernellab.running.programs.mlp", request)

    return SizeStudy(settings_for(args, "mlp"), setup, programs)


def _ranks(args: argparse.Namespace) -> int:
    ranks = 1 if args.ranks is None else args.ranks
    require_positive("--ranks", ranks, 1024)
    if ranks > 1 and args.tool:
        raise UserError(f"--with {args.tool} records one process: leave out --ranks")
    return int(ranks)


# An op -------------------------------------------------------------------------------------------------


def op_request(args: argparse.Namespace) -> OpRequest:
    """The request to the process that runs an op's implementations, without the folder."""
    from kernellab.declaration.targets import resolve
    from kernellab.running.parent.profiling import OP_SCHEDULE

    _refuse_other_options(args, the_MLP=(*_MLP_OPTIONS, "ranks"), scripts=_SCRIPT_OPTIONS)
    if args.script_arguments:
        raise UserError(f"an op takes no arguments after --: {args.script_arguments[0]!r}")
    target, case = resolve(args.target[0]), sized_request(args)
    return {
        "target": {"text": target.text, "module": target.module, "file": target.file, "op": target.op},
        "request": case.to_json(),
        "impls": split_commas(args.impl or project_text("impl")),
        "pass": choose("--pass", args.passes or "forward", PASSES),
        "device": parse_device(args.device or project_text("device")),
        "schedule": (_schedule(args) or OP_SCHEDULE).to_json(),
        "how": _recording_options(args),
        "tool": args.tool,
    }


def _op(args: argparse.Namespace) -> PlannedProgram:
    from kernellab.running.parent.profiling import Program

    request = op_request(args)
    settings = settings_for(args, absolute_target(args.target[0]))

    def program(folder: Path) -> Program:
        return Program("kernellab.running.programs.profiled_op", {**request, "folder": _artifacts(folder)})

    return PlannedProgram(request["target"]["op"] or Path(args.target[0]).stem, settings, program)
