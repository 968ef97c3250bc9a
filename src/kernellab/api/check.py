"""`kl.check`: the battery in the process that calls it, for an author's own tests.

A way that crashes takes the caller along; `klab check` runs the same in processes of their own.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Sequence
from typing import Any

import torch

from kernellab.base.errors import UserError, nearest
from kernellab.checking.declared_case import INTERPRETER_LIMIT
from kernellab.checking.examiner import GUARDS, Examiner
from kernellab.declaration import validation
from kernellab.declaration.declare import declare_op
from kernellab.declaration.kinds import match_names
from kernellab.declaration.op import Impl, Op
from kernellab.record import batteries as tried
from kernellab.trials.battery import Battery, for_ways
from kernellab.trials.confirmation import surely

Trials = list[dict[str, Any]]


def check(
    way: Op | Callable[..., Any],
    reference: Callable[..., Any] | None = None,
    *,
    impl: str | Sequence[str] = (),
    device: str | None = None,
    dtypes: Sequence[str] = (),
    quick: bool = False,
    seed: int = 0,
    **declaration: Any,
) -> list[tried.BatterySummary]:
    """Try the ways of an op, or one function against a plain PyTorch reference; AssertionError says what failed.

    `declaration` is what `kl.op` takes (args=, options=, reduces=, cases=, dtypes=), for a pair of functions.

    >>> check(lambda x: x * x, lambda x: x.square(), quick=True)[0]["status"]
    'ok'
    """
    op, names = _asked(way, reference, impl, {**declaration, **({"dtypes": dtypes} if dtypes else {})})
    dtypes = validation.read_dtypes(op.name, dtypes)
    where = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    ways = [one for one in op.select_impls(names) if _runs(one, where)]
    if not ways:
        raise UserError(f"no way of {op.name} runs here: {'; '.join(_why_not(op, names, where))}")
    outcomes: Any = run(op, ways, where, dtypes=dtypes, quick=quick, seed=seed)
    found = tried.summaries(outcomes)
    failed = [one for one in found if one["failures"] or not one["tried"]]
    if failed:
        raise AssertionError("\n".join(line for one in failed for line in tried.sentences(one)))
    if not found:
        raise AssertionError(f"cannot tell: {op.name}: its declaration allows no trial")
    return found


def run(
    op: Op,
    ways: Sequence[Impl],
    device: torch.device,
    *,
    dtypes: Sequence[str] = (),
    quick: bool = False,
    seed: int = 0,
    guards: frozenset[str] = GUARDS,
) -> Trials:
    """What each way made of each trial, as a record keeps it."""
    interpreted = _interpreting(device)
    most = INTERPRETER_LIMIT if interpreted else None
    trials = Battery(op, device.type, dtypes=dtypes, quick=quick, most=most).trials()
    examiner = Examiner(op, seed=seed, device=device, guards=guards)
    found: Trials = []
    for number, trial, way in for_ways(trials, ways):
        observed = surely(functools.partial(examiner.examine, way), trial)
        if observed is not None:
            told = {"trial": {**trial.to_json(), "label": trial.label}, "interpreter": interpreted}
            found.append({"op": op.name, "impl": way.name, "number": number, **told, **observed})
    return found


def _asked(
    way: Op | Callable[..., Any],
    reference: Callable[..., Any] | None,
    impl: str | Sequence[str],
    declaration: dict[str, Any],
) -> tuple[Op, list[str]]:
    if isinstance(way, Op):
        if reference is not None:
            raise UserError("kl.check takes an op, or a function and its reference")
        for word in set(declaration) - {"dtypes"}:
            raise UserError(f"kl.check({way.name}): {word}= is declared with the op, in kl.op({word}=…)")
        names = [impl] if isinstance(impl, str) else list(impl)
        for name in names:
            if not match_names(name, way.impls):
                raise UserError(f"op {way.name} has no way {name!r}: {nearest(name, way.impls)}")
        return way, names
    if reference is None:
        raise UserError("kl.check needs the reference beside the function: kl.check(mine, reference)")
    if not callable(way):
        raise UserError(f"kl.check({way!r}, …): what is checked is a function, or an op by itself: kl.check(op)")
    op = declare_op(reference, **{"name": getattr(reference, "__name__", "reference").strip("<>"), **declaration})
    name = getattr(way, "__name__", "way").strip("<>")
    name = name if name not in op.impls else f"{name}-checked"
    op.impl(name)(way)
    return op, [name]


def _interpreting(device: torch.device) -> bool:
    return device.type == "cpu" and bool(os.environ.get("TRITON_INTERPRET"))


def _runs(way: Impl, device: torch.device) -> bool:
    if way.kind.interpreted_on_cpu and device.type == "cpu":
        return _interpreting(device)
    return way.kind.obstacle(device.type) is None


def _why_not(op: Op, names: list[str], device: torch.device) -> list[str]:
    said = []
    for way in op.select_impls(names):
        if way.kind.interpreted_on_cpu and device.type == "cpu":
            said.append(f"{way.name} needs a GPU, or TRITON_INTERPRET=1 set before triton is imported")
        else:
            said.append(f"{way.name}: {way.kind.obstacle(device.type)}")
    return said
