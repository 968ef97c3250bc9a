"""Batteries of the shipped ops' hand-written implementations in one process: C++, and Triton in its interpreter.

`python -m support.battery_parts FAMILY` runs a part of each battery, see `choose`: relatives move their elements with
the same code, so that they may share the combinations. Without an argument it runs all batteries in full, as
`make exhaustive` does.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kernellab.trials.trial import Trial

FAMILIES = {
    "activations": ("gelu", "silu", "square"),
    "two inputs": ("geglu", "swiglu", "dropout_add"),
    "rows": ("softmax", "log_softmax"),
    "norms": ("layer_norm", "rms_norm", "add_rms_norm"),
    "cross entropy": ("cross_entropy",),
    "linear layers": ("linear_gelu", "linear_cross_entropy"),
    "rotations": ("rope",),
    "products": ("matmul",),
    "attention": ("attention",),
}

# Of an op whose heads are programs of their own: the interpreter runs sixty in a second.
MOST_HEADS = {"attention": 64}


def hand_written_impls(name: str, *, variants: bool = False) -> list[str]:
    """Those that run without a GPU; studies are left out, and without `variants` also those such as triton-atomic."""
    import kernellab as kl

    impls = getattr(kl.ops, name).impls.values()
    usable = [impl for impl in impls if impl.kind.name in ("triton", "cpp") and not impl.study]
    return [impl.name for impl in usable if variants or impl.name == impl.kind.name]


def features(trial: Trial) -> set[tuple[object, ...]]:
    """What a trial varies, one by one: a part of a battery must have all of them, if not all their combinations."""
    return {
        ("kind and dtype", trial.kind, trial.case.dtype),
        ("pass", trial.pass_name),
        ("call", trial.call),
        ("upstream", trial.upstream),
        *(("layout", *item) for item in trial.layouts.items()),
        *(("values", *item) for item in trial.values.items()),
        *(("option", name, str(value)) for name, value in trial.case.options.items()),
    }


def quick_battery(name: str, impl: str) -> list[Trial]:
    import kernellab as kl
    from kernellab.checking.declared_case import INTERPRETER_LIMIT
    from kernellab.trials.battery import impl_batteries

    op = getattr(kl.ops, name)
    limit = INTERPRETER_LIMIT if op[impl].kind.name == "triton" else None
    return impl_batteries(op, [op[impl]], "cpu", quick=True, max_elements=limit)[impl]


def parts_for(relatives: tuple[str, ...]) -> int:
    """Into how many parts the batteries of relatives are divided, of which each has another: six times as many."""
    return 6 * len(relatives)


def choose(trials: list[Trial], part: int, parts: int) -> list[Trial]:
    """Each `parts`-th trial from the `part`-th on, and those that alone have a feature."""
    chosen = trials[part::parts]
    known = set().union(*map(features, chosen))
    for trial in trials:
        if not features(trial) <= known:
            known |= features(trial)
            chosen.append(trial)
    return chosen


def _is_long(trial: Trial, name: str) -> bool:
    limit = MOST_HEADS.get(name)
    return limit is not None and limit < trial.case.B * trial.case.H


def failures(name: str, part: int = 0, parts: int = 1) -> Iterator[str]:
    """The chosen trials that fail."""
    import torch

    import kernellab as kl
    from kernellab.checking.confirmation import examine_and_confirm
    from kernellab.checking.examiner import Examiner
    from kernellab.checking.outcome import FAILED

    op = getattr(kl.ops, name)
    examiner = Examiner(op, seed=0, device=torch.device("cpu"))
    trials: dict[str, tuple[Trial, list[str]]] = {}  # implementations at one trial share its oracle
    for impl in hand_written_impls(name, variants=parts == 1):
        for trial in choose(quick_battery(name, impl), part, parts):
            if parts == 1 or not _is_long(trial, name):
                trials.setdefault(trial.key, (trial, []))[1].append(impl)
    right = 0
    for trial, impls in trials.values():
        for impl in impls:
            outcome = examine_and_confirm(lambda trial, impl=impl: examiner.examine(op[impl], trial), trial)
            right += outcome is not None and outcome.status == "ok"
            if outcome is not None and outcome.status in (*FAILED, "crashed", "oom"):
                yield f"{name} {impl} {trial.label}: {outcome.reason}"
    if right < 100 / parts:
        yield f"{name}: only {right} trials were judged"


def _main(family: str | None) -> int:
    from kernellab.interpreter.emulation import enable_interpreter

    enable_interpreter()
    failed = []
    for relatives in (FAMILIES[family],) if family else FAMILIES.values():
        for part, name in enumerate(relatives):
            failed += failures(name, part, parts_for(relatives)) if family else failures(name)
    print(*failed, "all passed" if not failed else f"{len(failed)} failed", sep="\n")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(_main(sys.argv[1] if len(sys.argv) > 1 else None))
