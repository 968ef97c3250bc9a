"""`klab check --break`: a way's kernel in the debugger, on the user's own terminal.

This is the one run that has no worker: its own process becomes the interpreter, and nothing is recorded.
"""

from __future__ import annotations

import dataclasses
import faulthandler
import functools
import signal
import sys
from pathlib import Path
from typing import Any

from kernellab.base.errors import UserError, nearest
from kernellab.base.user_code import explain
from kernellab.declaration.case import Case
from kernellab.declaration.case_request import CaseRequest
from kernellab.declaration.kinds import match_names
from kernellab.declaration.op import Impl, Op
from kernellab.declaration.targets import load, resolve
from kernellab.machine.tools import has_module
from kernellab.record.settings import Settings

_FEW = (64, 1024, 65_536)  # elements of the largest input: as few as the way takes


def debug(settings: Settings, *, file: str, line: int | None, program: tuple[int, ...] | None) -> int:
    """Run the one way the settings mean until it is finished or the user leaves; returns the exit code."""
    if not has_module("triton"):
        raise UserError("--break needs the package triton: klab doctor says how to get it")
    if "triton" in sys.modules:
        raise UserError("--break: this process has imported triton already; Triton's interpreter needs a fresh one")
    from kernellab.interpreter.emulation import prepare

    # A wild pointer is a real one in the interpreter: say on which line of which kernel it was used.
    faulthandler.enable()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # as an interruption it would only be a message at pdb's prompt
    here = str(Path.cwd())
    # Last, as in a worker: nothing beside the user's files hides an installed module.
    sys.path[:] = [*(entry for entry in sys.path if entry not in ("", here)), here]
    prepare()
    op = _op(settings.targets)
    impl = _way(op, settings.impls)
    case = _case(op, impl, CaseRequest(**settings.request))
    return _session(op, impl, case, settings.seed, {"file": file, "line": line, "program": program})


def _op(targets: list[str]) -> Op:
    if len(targets) > 1:
        raise UserError(f"--break takes one op at a time, not {len(targets)}: {', '.join(targets)}")
    found = load(resolve(targets[0]))
    if len(found) > 1:
        path = Path(targets[0]).name
        raise UserError(
            f"--break takes one op, {path} declares {', '.join(found)}: name it, {path}:{next(iter(found))}"
        )
    return next(iter(found.values()))


def _way(op: Op, asked: list[str]) -> Impl:
    """The only way of kind triton among those asked for."""
    theirs = [impl.name for impl in op.impls.values() if impl.kind.name == "triton"]
    for name in asked:
        if not match_names(name, op.impls):
            raise UserError(f"op {op.name} has no implementation {name}: {nearest(name, op.impls)}")
    if not theirs:
        raise UserError(f"--break stops in Triton kernels, and op {op.name} has no way of kind triton")
    chosen = op.select_impls(asked)
    fitting = [impl for impl in chosen if impl.name in theirs]
    if not fitting:
        names = f"{', '.join(impl.name for impl in chosen)} {'is' if len(chosen) == 1 else 'are'} not"
        raise UserError(f"--break stops in Triton kernels, {names} of kind triton: --impl {' or '.join(theirs)}")
    if len(fitting) > 1:
        raise UserError(
            f"--break takes one way, {len(fitting)} are of kind triton: --impl {' or '.join(i.name for i in fitting)}"
        )
    return fitting[0]


def _case(op: Op, impl: Impl, request: CaseRequest) -> Case:
    """The first case asked for; where no size is, as small a one as the way takes."""
    from kernellab.trials.small_cases import standin

    first = op.expand(request, "cpu")[0]
    cases = [first] if request.shapes or request.dims else [standin(op, first, limit) for limit in _FEW]
    try:
        refusals = [impl.refusal(case) for case in cases]
    except Exception as error:
        raise UserError(f"supports= of {impl.name} failed: {explain(error)}") from error
    if None not in refusals:
        raise UserError(
            f"{impl.name} does not take {cases[-1].label}: {refusals[-1]}; --shape or --dtype choose others"
        )
    return cases[refusals.index(None)]


def _session(op: Op, impl: Impl, case: Case, seed: int, stop: dict[str, Any]) -> int:
    import torch

    from kernellab.checking.examiner import GUARDS, Examiner
    from kernellab.interpreter.debugger import Debugger, Stop, root
    from kernellab.trials.trial import Trial

    debugger = Debugger(Stop(**stop), f"{op.name} · {impl.name} · {case.label} · in Triton's interpreter")
    watched = dataclasses.replace(impl, fn=functools.partial(debugger.call, impl.fn))
    # Without bands: pointers are shown by their distance from the beginning of a tensor.
    examiner = Examiner(op, seed=seed, device=torch.device("cpu"), guards=GUARDS - {"bands"})
    found = examiner.examine(watched, Trial("declared", case))
    assert found is not None
    if debugger.refused is not None:
        raise debugger.refused
    if debugger.quitting:
        return 0
    if isinstance(debugger.raised, KeyboardInterrupt):
        raise debugger.raised
    if debugger.raised is not None:
        print(f"{impl.name} raised {explain(root(debugger.raised))}", flush=True)
        debugger.post_mortem()
        return 0
    if debugger.launch is None:
        why = found["reason"] if found["status"] == "unknown" else f"{impl.name} launched no Triton kernel"
        raise UserError(f"{op.name} at {case.label}: {why}")
    if not debugger.stopped:
        where = f"{stop['file'] or 'line'}{':' if stop['file'] else ' '}{stop['line']}"
        if stop["program"]:
            where += f" in program {','.join(map(str, stop['program']))}"
        raise UserError(f"--break: {where} was not reached at {case.label}; {_verdict(impl.name, found)}")
    print(_verdict(impl.name, found))
    return 0


def _verdict(way: str, found: dict[str, Any]) -> str:
    if found["status"] != "ok":
        return f"{way} is wrong: {found['reason']}" if found["status"] == "wrong" else f"{way}: {found['reason']}"
    error, peer = found["errors"], found["peer"]
    return (
        f"{way} is right: largest error {error['max']:.2g} roundings, {error['max_abs']:.2g} absolute "
        f"({peer['impl']}'s {peer['max']:.2g} and {peer['max_abs']:.2g}), against the reference in float64"
    )
