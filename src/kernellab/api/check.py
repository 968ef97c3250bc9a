"""`kl.check`: the battery in the calling process, for an author's own tests.

An implementation that crashes ends the caller too; `klab check` runs the same battery in separate processes.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping, Sequence

import torch

from kernellab.base.errors import UserError, nearest
from kernellab.base.functions import AnyFunction
from kernellab.checking.confirmation import examine_and_confirm
from kernellab.checking.declared_case import INTERPRETER_LIMIT
from kernellab.checking.examiner import GUARDS, Examiner
from kernellab.declaration import validation
from kernellab.declaration.declare import declare_op
from kernellab.declaration.kinds import match_names
from kernellab.declaration.op import Impl, Op
from kernellab.record import batteries
from kernellab.record.schema import TrialOutcome
from kernellab.trials.battery import impl_batteries
from kernellab.trials.selection import pair_with_impls


class Summaries(list[batteries.BatterySummary]):
    """One summary for each implementation; a table in a notebook."""

    def _repr_html_(self) -> str:
        from kernellab.reporting.notebook.results import render_batteries

        return render_batteries(self)


def check(
    target: Op | AnyFunction,
    reference: AnyFunction | None = None,
    *,
    impl: str | Sequence[str] = (),
    device: str | None = None,
    dtypes: Sequence[str] = (),
    quick: bool = False,
    seed: int = 0,
    **declaration: object,
) -> Summaries:
    """Try the implementations of an op, or one function against a plain PyTorch reference, with the battery.

    Returns a summary per implementation. Raises an AssertionError that names the failed trials. For a function with its
    reference, `declaration` takes what `kl.op` takes: args=, options=, reduces=, cases=, dtypes=.

    >>> check(lambda x: x * x, lambda x: x.square(), quick=True)[0]["status"]
    'ok'
    """
    op, names = _op_and_names(target, reference, impl, {**declaration, **({"dtypes": dtypes} if dtypes else {})})
    dtypes = validation.read_dtypes(op.name, dtypes)
    where = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    obstacles = {chosen.name: _obstacle(chosen, where) for chosen in op.select_impls(names)}
    impls = [op[name] for name, obstacle in obstacles.items() if obstacle is None]
    if not impls:
        raise UserError(f"no implementation of {op.name} runs here: {'; '.join(filter(None, obstacles.values()))}")
    summaries = batteries.summaries(run(op, impls, where, dtypes=dtypes, quick=quick, seed=seed))
    failed = [summary for summary in summaries if summary["failures"] or not summary["tried"]]
    if failed:
        raise AssertionError("\n".join(line for summary in failed for line in batteries.sentences(summary)))
    if not summaries:
        raise AssertionError(f"cannot tell: {op.name}: its declaration allows no trial")
    return Summaries(summaries)


def run(
    op: Op,
    impls: Sequence[Impl],
    device: torch.device,
    *,
    dtypes: Sequence[str] = (),
    quick: bool = False,
    seed: int = 0,
    guards: frozenset[str] = GUARDS,
) -> list[TrialOutcome]:
    """The outcome of each trial for each implementation, as a record stores it."""
    interpreted = _interprets(device)
    limit = INTERPRETER_LIMIT if interpreted else None
    trials = impl_batteries(op, impls, device.type, dtypes=dtypes, quick=quick, max_elements=limit)
    examiner = Examiner(op, seed=seed, device=device, guards=guards)
    entries: list[TrialOutcome] = []
    for number, trial, impl in pair_with_impls(trials, impls):
        outcome = examine_and_confirm(functools.partial(examiner.examine, impl), trial)
        if outcome is not None:
            entry = outcome.at_trial(op=op.name, impl=impl.name, number=number, trial=trial, interpreted=interpreted)
            entries.append(entry)
    return entries


def _op_and_names(
    target: Op | AnyFunction,
    reference: AnyFunction | None,
    impl: str | Sequence[str],
    declaration: Mapping[str, object],
) -> tuple[Op, list[str]]:
    """The op to check, and the names of the implementations."""
    if isinstance(target, Op):
        if reference is not None:
            raise UserError("kl.check takes an op, or a function and its reference")
        for name in set(declaration) - {"dtypes"}:
            raise UserError(f"kl.check({target.name}): {name}= is declared with the op, in kl.op({name}=…)")
        names = [impl] if isinstance(impl, str) else list(impl)
        for name in names:
            if not match_names(name, target.impls):
                raise UserError(f"op {target.name} has no implementation {name!r}: {nearest(name, target.impls)}")
        return target, names
    if reference is None:
        raise UserError("kl.check needs the reference as its second argument: kl.check(mine, reference)")
    if not callable(target):
        raise UserError(f"kl.check({target!r}, …) checks a function against its reference, or an op: kl.check(op)")
    op = declare_op(reference, **{"name": getattr(reference, "__name__", "reference").strip("<>"), **declaration})
    name = getattr(target, "__name__", "impl").strip("<>")
    name = name if name not in op.impls else f"{name}-checked"
    op.impl(name)(target)
    return op, [name]


def _interprets(device: torch.device) -> bool:
    return device.type == "cpu" and bool(os.environ.get("TRITON_INTERPRET"))


def _obstacle(impl: Impl, device: torch.device) -> str | None:
    """Why an implementation does not run here, or None."""
    if impl.kind.interpreted_on_cpu and device.type == "cpu":
        if _interprets(device):
            return None
        return f"{impl.name} needs a GPU, or TRITON_INTERPRET=1 set before triton is imported"
    obstacle = impl.kind.obstacle(device.type)
    return None if obstacle is None else f"{impl.name}: {obstacle}"
