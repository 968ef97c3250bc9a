"""`klab check --break`: debugs an implementation's Triton kernel on the user's terminal.

This is the only command that runs an op without a worker: its own process runs the interpreter and records nothing.
"""

from __future__ import annotations

import dataclasses
import faulthandler
import functools
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kernellab.base.errors import UserError, nearest
from kernellab.base.user_code import explain
from kernellab.declaration.case import Case
from kernellab.declaration.case_request import CaseRequest
from kernellab.declaration.kinds import match_names
from kernellab.declaration.op import Impl, Op
from kernellab.declaration.targets import resolve
from kernellab.interpreter.stop import Stop
from kernellab.machine.tools import has_module
from kernellab.peers import load
from kernellab.record.settings import Settings

if TYPE_CHECKING:  # it imports torch, which must not be imported before the interpreter is switched on
    from kernellab.checking.outcome import Outcome

_SMALL_CASES = (64, 1024, 65_536)  # elements of the largest input: the first that the implementation takes is used


def debug(settings: Settings, *, file: str, line: int | None, program: tuple[int, ...] | None) -> int:
    """Run the one implementation that the settings name until it ends or the user quits; returns the exit code."""
    if not has_module("triton"):
        raise UserError("--break needs the package triton: klab doctor says how to get it")
    if "triton" in sys.modules:
        raise UserError("--break: this process has imported triton already; Triton's interpreter needs a fresh one")
    from kernellab.interpreter.emulation import enable_interpreter

    # In the interpreter pointers are real addresses: after a segmentation fault, print the line of the kernel.
    faulthandler.enable()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # klab's own handler would not end a process at pdb's prompt
    here = str(Path.cwd())
    # The working directory goes last, as in a worker: no file there hides an installed module.
    sys.path[:] = [*(entry for entry in sys.path if entry not in ("", here)), here]
    enable_interpreter()
    op = _find_op(settings.targets, settings.loaded_peers())
    impl = _find_impl(op, settings.impls)
    case = _choose_case(op, impl, CaseRequest(**settings.request))
    return _debug_call(op, impl, case, settings.seed, Stop(file, line, program))


def _find_op(targets: Sequence[str], peers: Sequence[str] = ()) -> Op:
    if len(targets) > 1:
        raise UserError(f"--break takes one op at a time, not {len(targets)}: {', '.join(targets)}")
    ops = load(dataclasses.replace(resolve(targets[0]), peers=peers))
    if len(ops) > 1:
        path = Path(targets[0]).name
        raise UserError(f"--break takes one op, {path} declares {', '.join(ops)}: name it, {path}:{next(iter(ops))}")
    return next(iter(ops.values()))


def _find_impl(op: Op, names: list[str]) -> Impl:
    """The only implementation of kind triton among the named ones."""
    of_kind_triton = [impl.name for impl in op.impls.values() if impl.kind.name == "triton"]
    for name in names:
        if not match_names(name, op.impls):
            raise UserError(f"op {op.name} has no implementation {name}: {nearest(name, op.impls)}")
    if not of_kind_triton:
        raise UserError(f"--break stops in Triton kernels, and op {op.name} has no implementation of kind triton")
    chosen = op.select_impls(names)
    candidates = [impl for impl in chosen if impl.name in of_kind_triton]
    if not candidates:
        others = f"{', '.join(impl.name for impl in chosen)} {'is' if len(chosen) == 1 else 'are'} not"
        raise UserError(
            f"--break stops in Triton kernels, {others} of kind triton: --impl {' or '.join(of_kind_triton)}"
        )
    if len(candidates) > 1:
        options = " or ".join(impl.name for impl in candidates)
        raise UserError(f"--break takes one implementation, {len(candidates)} are of kind triton: --impl {options}")
    return candidates[0]


def _choose_case(op: Op, impl: Impl, request: CaseRequest) -> Case:
    """The first requested case; without a requested size, the smallest case that the implementation takes."""
    from kernellab.trials.choosing.small_cases import shrink_to

    first = op.expand(request, "cpu")[0]
    cases = [first] if request.shapes or request.dims else [shrink_to(op, first, limit) for limit in _SMALL_CASES]
    try:
        refusals = [impl.refusal(case) for case in cases]
    except Exception as error:
        raise UserError(f"supports= of {impl.name} failed: {explain(error)}") from error
    if None not in refusals:
        raise UserError(
            f"{impl.name} does not take {cases[-1].label}: {refusals[-1]}; choose another with --shape or --dtype"
        )
    return cases[refusals.index(None)]


def _debug_call(op: Op, impl: Impl, case: Case, seed: int, stop: Stop) -> int:
    import torch

    from kernellab.checking.examiner import GUARDS, Examiner
    from kernellab.interpreter.debugger import Debugger
    from kernellab.interpreter.frames import root_cause
    from kernellab.trials.trial import Trial

    debugger = Debugger(stop, f"{op.name} · {impl.name} · {case.label} · in Triton's interpreter")
    debugged = dataclasses.replace(impl, fn=functools.partial(debugger.call, impl.fn))
    # Without guard bands: pointers are shown by their distance from the start of a tensor.
    examiner = Examiner(op, seed=seed, device=torch.device("cpu"), guards=GUARDS - {"bands"})
    outcome = examiner.examine(debugged, Trial("declared", case))
    assert outcome is not None
    if debugger.refused is not None:
        raise debugger.refused
    if debugger.quitting:
        return 0
    if isinstance(debugger.raised, KeyboardInterrupt):
        raise debugger.raised
    if debugger.raised is not None:
        print(f"{impl.name} raised {explain(root_cause(debugger.raised))}", flush=True)
        debugger.post_mortem()
        return 0
    if debugger.launch is None:
        reason = outcome.reason if outcome.status == "unknown" else f"{impl.name} launched no Triton kernel"
        raise UserError(f"{op.name} at {case.label}: {reason}")
    if not debugger.stopped:
        raise UserError(f"--break: {stop.label} was not reached at {case.label}; {_describe(impl.name, outcome)}")
    print(_describe(impl.name, outcome))
    return 0


def _describe(impl: str, outcome: Outcome) -> str:
    if outcome.errors is None or outcome.peer is None:
        return f"{impl} is wrong: {outcome.reason}" if outcome.status == "wrong" else f"{impl}: {outcome.reason}"
    error, peer = outcome.errors, outcome.peer.errors
    return (
        f"{impl} is right: largest error {error.max:.2g} roundings, {error.max_abs:.2g} absolute "
        f"({outcome.peer.impl}'s {peer.max:.2g} and {peer.max_abs:.2g}), against the reference in float64"
    )
