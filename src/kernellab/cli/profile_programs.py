"""What `klab profile` runs: an op, the MLP or a script, as a process to start."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kernellab.base.errors import UserError, nearest
from kernellab.cli.begin import absolute
from kernellab.cli.options import case_arguments, case_request, device_in, positive, project_defaults
from kernellab.declaration.case_request import parse_sizes

if TYPE_CHECKING:
    from kernellab.profiler.protocol import MlpRequest, OpRequest, RecordingOptionsJson, ScriptRequest
    from kernellab.profiler.schedule import Schedule
    from kernellab.record.settings import Settings
    from kernellab.running.parent.profiling import Program
    from kernellab.workloads.mlp_setup import MlpSetup

_DEFAULT_SECONDS = 20.0
_NAME_CHARACTERS = 50  # of a trace: file systems take 255 bytes, with the parts after it
_TRACE_SUFFIXES = (".json", ".gz", ".sqlite", ".nsys-rep", ".ncu-rep")
_OP_OPTIONS = ("impl", "shape", "dtype", "opt", "passes")
_MLP_OPTIONS = ("dim", "layers", "batch", "steps", "optimizer", "rate", "data", "workers")
_SCRIPT_OPTIONS = ("seconds", "memory")
_PASSES = ("forward", "backward", "both")


@dataclass(frozen=True)
class ProgramPlan:
    """A program to profile; its process is planned once there is a folder for its traces."""

    name: str
    settings: Settings
    program: Callable[[Path], Program]


@dataclass(frozen=True)
class SizeStudy:
    """The MLP timed over one or more of its sizes, one after the other."""

    settings: Settings
    setup: MlpSetup
    programs: Callable[[Path], Iterator[tuple[str, Program]]]


def arguments(sub: argparse.ArgumentParser) -> None:
    from kernellab.workloads.mlp_setup import DEFAULT_SIZES, OPTIMIZERS, RATES

    ops = sub.add_argument_group("an op")
    case_arguments(ops)
    ops.add_argument("--pass", dest="passes", metavar="P", help=f"{', '.join(_PASSES)} (default forward)")
    mlp = sub.add_argument_group("mlp", "several sizes, as in 64:1024:x2, are timed instead of traced")
    for name, default in DEFAULT_SIZES.items():
        mlp.add_argument(f"--{name}", metavar="N", help=f"default {default}")
    mlp.add_argument("--optimizer", metavar="O", help=f"{', '.join(OPTIMIZERS)} (default none)")
    mlp.add_argument("--rate", metavar="R", help=f"the learning rate over the steps: {', '.join(RATES)}")
    mlp.add_argument("--data", action="store_true", help="batches from a data loader instead of one fixed batch")
    mlp.add_argument("--workers", type=int, metavar="N", help="processes of the data loader (default 0)")


def plan(args: argparse.Namespace, rest: list[str]) -> ProgramPlan | SizeStudy:
    """The program that a command line names; raises UserError if it cannot be run."""
    targets = args.target
    if args.module:
        if targets:
            raise UserError(f"-m {args.module} names the program: leave out {targets[0]!r}")
        return _plan_script(args, rest, args.module)
    if not targets:
        raise UserError("nothing to profile: klab profile gelu, klab profile mlp or klab profile train.py -- ITS ARGS")
    if len(targets) > 1:
        raise UserError(f"one program at a time, not {len(targets)}: arguments of a script come after --")
    if targets[0] == "mlp":
        return _plan_mlp(args, rest)
    if is_script(targets[0]):
        return _plan_script(args, rest, targets[0])
    return _plan_op(args, rest)


def is_script(target: str) -> bool:
    """Whether the target is a file that declares no op. The file is parsed, not executed."""
    from kernellab.declaration.catalogue import parse

    path = Path(target)
    if path.suffix in _TRACE_SUFFIXES:
        raise UserError(f"{target} looks like a trace: klab profile --open {target}")
    if path.suffix != ".py":
        return path.is_file()
    if not path.is_file():
        raise UserError(f"no file {target}")
    return not any(entry.impls for entry in parse(path).values())  # a file that cannot be parsed declares none


def settings_for(args: argparse.Namespace, target: str) -> Settings:
    from kernellab.record.settings import NO_CASES, Settings

    return Settings(targets=[target], stages=["profile"], request=NO_CASES, device=device_in(args.device))


def _recording_options(args: argparse.Namespace) -> RecordingOptionsJson:
    return {"stacks": not args.no_stacks}


def _schedule(args: argparse.Namespace) -> Schedule | None:
    from kernellab.profiler.schedule import parse_schedule

    return parse_schedule(args.schedule) if args.schedule else None


def _refuse_options(args: argparse.Namespace, names: tuple[str, ...], owner: str) -> None:
    for name in names:
        if getattr(args, name):
            raise UserError(f"--{'pass' if name == 'passes' else name} is an option of {owner}")


def _trace_folder(folder: Path) -> str:
    return str((folder / "artifacts").resolve())


# A script ----------------------------------------------------------------------------------------------


def _plan_script(args: argparse.Namespace, rest: list[str], target: str) -> ProgramPlan:
    from kernellab.running.parent.profiling import Program

    if rest:
        raise UserError(f"no option {rest[0]}: arguments of the script come after --, as in {target} -- {rest[0]}")
    _refuse_options(args, _OP_OPTIONS, "ops")
    _refuse_options(args, _MLP_OPTIONS, "the MLP")
    if args.device:
        raise UserError("--device: a script chooses its device itself")
    name = target.rpartition(".")[2] if args.module else Path(target).stem
    seconds = positive("--seconds", args.seconds) if args.seconds is not None else _DEFAULT_SECONDS
    gib = positive("--memory", args.memory) if args.memory is not None else None
    ranks, schedule = _ranks(args), _schedule(args)

    def program(folder: Path) -> Program:
        request: ScriptRequest = {
            "module": bool(args.module),
            "name": "".join(c if c.isalnum() or c in "-_" else "-" for c in name)[:_NAME_CHARACTERS],
            "schedule": schedule.to_json() if schedule else None,
            "seconds": seconds,
            "memory_bytes": None if gib is None else int(gib * (1 << 30)),
            "how": _recording_options(args),
            "folder": _trace_folder(folder),
        }
        main, words = "kernellab.running.programs.profiled_script", [target, *args.words]
        return Program(main, request, words, ranks, as_script=True, module=bool(args.module))

    return ProgramPlan(name, settings_for(args, target), program)


# The MLP -----------------------------------------------------------------------------------------------


def _plan_mlp(args: argparse.Namespace, rest: list[str]) -> ProgramPlan | SizeStudy:
    from kernellab.running.parent.profiling import Program, validate_mlp
    from kernellab.workloads.mlp_setup import DEFAULT_SIZES

    if rest or args.words:
        raise UserError(f"mlp takes no {(rest + args.words)[0]!r}: klab profile --help lists its options")
    _refuse_options(args, _OP_OPTIONS, "ops")
    _refuse_options(args, _SCRIPT_OPTIONS, "scripts")
    sizes = {
        name: [default] if getattr(args, name) is None else parse_sizes(name, getattr(args, name))
        for name, default in DEFAULT_SIZES.items()
    }
    ranks, schedule = _ranks(args), _schedule(args)
    varied = [name for name, values in sizes.items() if len(values) > 1]
    if varied:
        return _plan_study(args, sizes, varied)
    setup = _mlp_setup(args, {name: values[0] for name, values in sizes.items()})
    validate_mlp(setup, schedule, tracing=True)

    def program(folder: Path) -> Program:
        request: MlpRequest = {
            "do": "train" if args.tool else "profile",
            "setup": setup.to_json(),
            "schedule": schedule.to_json() if schedule else None,
            "how": _recording_options(args),
            "folder": _trace_folder(folder),
        }
        return Program("kernellab.running.programs.mlp", request, ranks=ranks)

    return ProgramPlan("mlp", settings_for(args, "mlp"), program)


def _mlp_setup(args: argparse.Namespace, sizes: dict[str, int]) -> MlpSetup:
    from kernellab.workloads.mlp_setup import OPTIMIZERS, RATES, MlpSetup

    optimizer = _one_of("optimizer", args.optimizer, OPTIMIZERS)
    rate = _one_of("rate", args.rate, RATES)
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
        device=device_in(args.device),
    )


def _plan_study(args: argparse.Namespace, sizes: dict[str, list[int]], varied: list[str]) -> SizeStudy:
    from kernellab.running.parent.profiling import Program, validate_mlp
    from kernellab.workloads.mlp_setup import DEFAULT_SIZES

    for name in ("ranks", "schedule", "tool"):
        if getattr(args, name):
            raise UserError(f"several sizes are timed, not traced: leave out --{'with' if name == 'tool' else name}")
    # While one size varies, the others have the value given, or the default if several were given.
    fixed = {name: values[0] if len(values) == 1 else DEFAULT_SIZES[name] for name, values in sizes.items()}
    setup = _mlp_setup(args, fixed)

    def programs(folder: Path) -> Iterator[tuple[str, Program]]:
        for by in varied:
            setups = [_mlp_setup(args, {**fixed, by: size}) for size in sizes[by]]
            for one in setups:
                validate_mlp(one, None, tracing=False)
            request: MlpRequest = {
                "do": "scale",
                "by": by,
                "setups": [one.to_json() for one in setups],
                "folder": _trace_folder(folder),
            }
            yield by, Program("kernellab.running.programs.mlp", request)

    return SizeStudy(settings_for(args, "mlp"), setup, programs)


def _ranks(args: argparse.Namespace) -> int:
    ranks = 1 if args.ranks is None else args.ranks
    positive("--ranks", ranks, 1024)
    if ranks > 1 and args.tool:
        raise UserError(f"--with {args.tool} records one process: leave out --ranks")
    return int(ranks)


def _one_of(name: str, value: str | None, choices: tuple[str, ...]) -> str:
    """The value of an option, of which the first choice is the default."""
    if value is not None and value not in choices:
        raise UserError(f"--{name} {value}: {nearest(value, choices)}")
    return value or choices[0]


# An op -------------------------------------------------------------------------------------------------


def op_request(args: argparse.Namespace, rest: list[str]) -> OpRequest:
    """The request to a program that runs an op's implementations, without the folder."""
    from kernellab.declaration.targets import resolve
    from kernellab.running.parent.profiling import OP_SCHEDULE

    _refuse_options(args, (*_MLP_OPTIONS, "ranks"), "the MLP")
    _refuse_options(args, _SCRIPT_OPTIONS, "scripts")
    if args.words:
        raise UserError(f"an op takes no arguments after --: {args.words[0]!r}")
    target = resolve(args.target[0])
    args.quick = False
    case = case_request(args, rest)
    defaults = project_defaults()
    impls = args.impl or defaults.get("impl", "")
    return {
        "target": {"text": target.text, "module": target.module, "file": target.file, "op": target.op},
        "request": {**case.to_json(), "quick": not (case.shapes or case.dims)},
        "impls": [part.strip() for part in impls.split(",") if part.strip()],
        "pass": _one_of("pass", args.passes, _PASSES),
        "device": device_in(args.device or defaults.get("device")),
        "schedule": (_schedule(args) or OP_SCHEDULE).to_json(),
        "how": _recording_options(args),
        "tool": args.tool,
    }


def _plan_op(args: argparse.Namespace, rest: list[str]) -> ProgramPlan:
    from kernellab.running.parent.profiling import Program

    request = op_request(args, rest)
    settings = settings_for(args, absolute(args.target[0]))

    def program(folder: Path) -> Program:
        return Program("kernellab.running.programs.profiled_op", {**request, "folder": _trace_folder(folder)})

    return ProgramPlan(request["target"]["op"] or Path(args.target[0]).stem, settings, program)
