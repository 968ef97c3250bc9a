"""Which trials of a battery each implementation gets: all of them, or ten where torch.compile is involved. No torch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from kernellab.declaration.op import Impl
from kernellab.trials import calls
from kernellab.trials.domain import Domain
from kernellab.trials.trial import Trial

COMPILE_TRIALS = 10  # for implementations of kind compile: each trial compiles for a second or two


def pair_with_impls(
    trials_of: Mapping[str, Sequence[Trial]], impls: Sequence[Impl]
) -> Iterator[tuple[int, Trial, Impl]]:
    """(number, trial, implementation), trial by trial: the implementations tried at one trial share its oracle."""
    takers: dict[str, list[Impl]] = {}
    trials: dict[str, Trial] = {}
    for impl in impls:
        for trial in _select(impl, trials_of[impl.name]):
            takers.setdefault(trial.key, []).append(impl)
        for trial in trials_of[impl.name]:  # numbers do not depend on which of them are selected
            trials.setdefault(trial.key, trial)
    for number, (key, trial) in enumerate(trials.items()):
        yield from ((number, trial, impl) for impl in takers.get(key, ()))


def _select(impl: Impl, trials: Sequence[Trial]) -> Sequence[Trial]:
    if impl.kind.name != "compile":
        return trials
    domain = Domain(impl.op, impl)
    return select_for_compile([trial for trial in trials if domain.takes(trial)])


def select_for_compile(trials: Sequence[Trial]) -> list[Trial]:
    """Ten trials that differ as much as possible: one of each kind in turn."""
    by_kind: dict[str, list[Trial]] = {}
    for trial in trials:
        if (
            trial.call == calls.PLAIN
            and trial.loss_on is None
            and trial.kind not in ("declared", "large", "strides", "long")
        ):
            by_kind.setdefault(trial.kind, []).append(trial)
    chosen: list[Trial] = []
    for turn in range(COMPILE_TRIALS):
        for of_kind in by_kind.values():
            at = (2 * turn + 1) * len(of_kind) // (2 * COMPILE_TRIALS)
            if len(chosen) < COMPILE_TRIALS and of_kind[at] not in chosen:
                chosen.append(of_kind[at])
    return chosen
