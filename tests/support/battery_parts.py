"""Batteries of the shipped ops' hand-written implementations in one process: C++, and Triton in its interpreter.

`python -m support.battery_parts FAMILY` runs a part of each battery: relatives move their elements with the same code,
so that each is tried with other trials. Without an argument it runs all of them in full, as `make exhaustive` does.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterator

FAMILIES = {
    "activations": ("gelu", "silu", "square"),
    "two inputs": ("geglu", "swiglu", "dropout_add"),
    "rows": ("softmax", "log_softmax"),
    "norms": ("layer_norm", "rms_norm", "add_rms_norm"),
    "cross entropy": ("cross_entropy",),
    "rotations": ("rope",),
}


def hand_written_impls(name: str) -> list[str]:
    """Those that run without a GPU; studies are left out."""
    import kernellab as kl

    impls = getattr(kl.ops, name).impls.values()
    return [impl.name for impl in impls if impl.kind.name in ("triton", "cpp") and not impl.study]


def failures(name: str, part: int = 0, parts: int = 1) -> Iterator[str]:
    """The trials that fail, of every kind each `parts`-th from the `part`-th on."""
    import torch

    import kernellab as kl
    from kernellab.checking.confirmation import examine_and_confirm
    from kernellab.checking.declared_case import INTERPRETER_LIMIT
    from kernellab.checking.examiner import Examiner
    from kernellab.checking.outcome import FAILED
    from kernellab.trials.battery import impl_batteries
    from kernellab.trials.trial import Trial

    op = getattr(kl.ops, name)
    examiner = Examiner(op, seed=0, device=torch.device("cpu"))
    tried = 0
    trials: dict[str, tuple[Trial, list[str]]] = {}  # both implementations at a trial share its oracle
    for impl in hand_written_impls(name):
        limit = INTERPRETER_LIMIT if op[impl].kind.name == "triton" else None
        kinds: dict[str, list[Trial]] = defaultdict(list)
        for trial in impl_batteries(op, [op[impl]], "cpu", quick=True, max_elements=limit)[impl]:
            kinds[trial.kind].append(trial)
        for of_kind in kinds.values():
            # A kind with few trials gives each relative one.
            for trial in of_kind[part % len(of_kind) :: parts]:
                trials.setdefault(trial.key, (trial, []))[1].append(impl)
    for trial, impls in trials.values():
        for impl in impls:
            outcome = examine_and_confirm(lambda trial, impl=impl: examiner.examine(op[impl], trial), trial)
            tried += outcome is not None and outcome.status == "ok"
            if outcome is not None and outcome.status in FAILED:
                yield f"{name} {impl} {trial.label}: {outcome.reason}"
    if tried < 100 / parts:
        yield f"{name}: only {tried} trials were judged"


def _main(family: str | None) -> int:
    from kernellab.interpreter.emulation import enable_interpreter

    enable_interpreter()
    failed = []
    for relatives in (FAMILIES[family],) if family else FAMILIES.values():
        for part, name in enumerate(relatives):
            failed += failures(name, part, len(relatives)) if family else failures(name)
    print(*failed, "all passed" if not failed else f"{len(failed)} failed", sep="\n")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(_main(sys.argv[1] if len(sys.argv) > 1 else None))
