"""Which trials of a battery each implementation gets: all of them, or a few where each takes long. No torch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from kernellab.declaration.op import Impl, Op
from kernellab.trials import calls, values
from kernellab.trials.choosing.small_cases import largest_input
from kernellab.trials.domain import Domain
from kernellab.trials.trial import Trial

COMPILE_TRIALS = 10  # for implementations of kind compile: each trial compiles for a second or two
RANDOM_TRIALS = 24  # for implementations that draw their own random numbers: each trial takes hundreds of calls
RANDOM_ELEMENTS = 1 << 12  # of an input, in such a trial


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
    if impl.kind.name != "compile" and not impl.random:
        return trials
    domain = Domain(impl.op, impl)
    inside = [trial for trial in trials if domain.takes(trial)]
    if impl.random:
        inside = [trial for trial in inside if random_obstacle(impl.op, trial) is None]
    return select_varied(inside, COMPILE_TRIALS if impl.kind.name == "compile" else RANDOM_TRIALS)


def random_obstacle(op: Op, trial: Trial) -> str | None:
    """Why an implementation that draws its own random numbers cannot be judged at a trial."""
    if largest_input(op, trial.case) > RANDOM_ELEMENTS:
        return f"draws its own random numbers, and distributions are compared up to {RANDOM_ELEMENTS} elements"
    if values.LARGE in trial.values.values():
        return "draws its own random numbers, and distributions of numbers that overflow are not compared"
    return None


def select_varied(trials: Sequence[Trial], count: int) -> list[Trial]:
    """Trials that differ as much as possible: one of each kind in turn."""
    by_kind: dict[str, list[Trial]] = {}
    for trial in trials:
        if (
            trial.call == calls.PLAIN
            and trial.loss_on is None
            and trial.kind not in ("declared", "large", "strides", "long")
        ):
            by_kind.setdefault(trial.kind, []).append(trial)
    chosen: list[Trial] = []
    for turn in range(count):
        for of_kind in by_kind.values():
            at = (2 * turn + 1) * len(of_kind) // (2 * count)
            if len(chosen) < count and of_kind[at] not in chosen:
                chosen.append(of_kind[at])
    return chosen
