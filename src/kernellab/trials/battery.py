"""The battery: the fixed set of trials that is generated from an op's declaration.

Each kind of trial is a function of the bases. To add a kind, add its name to `trial.KINDS` and its function here. An
implementation with `supports=` has trials of its own besides, found inside what it accepts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

from kernellab.declaration.op import Impl, Op
from kernellab.trials import input_trials as kinds
from kernellab.trials.bases import Bases
from kernellab.trials.choosing.small_cases import largest_input
from kernellab.trials.combinations import combination_trials
from kernellab.trials.domain import Domain
from kernellab.trials.further_sizes import LONG_ELEMENTS, long_trials, ordinary_size_trials
from kernellab.trials.gradient_trials import gradient_trials
from kernellab.trials.selection import RANDOM_ELEMENTS
from kernellab.trials.sizes import spread
from kernellab.trials.trial import Trial
from kernellab.trials.trial_inputs import allowed_inputs

_MAX_TOTAL_ELEMENTS = 1 << 30  # of the largest inputs of all trials
_MAX_WORK = 1 << 30  # the product of all sizes: a result may be larger than every input

_KINDS: tuple[Callable[[Bases], Iterator[Trial]], ...] = (
    kinds.declared_trials,
    kinds.option_trials,
    kinds.dtype_trials,
    kinds.size_trials,
    ordinary_size_trials,
    kinds.rank_trials,
    kinds.layout_trials,
    kinds.deep_layout_trials,
    kinds.value_trials,
    kinds.index_trials,
    gradient_trials,
    combination_trials,
    kinds.call_trials,
    kinds.same_tensor_trials,
)
_SLOW_KINDS = (long_trials, kinds.far_trials, kinds.large_trials)  # left out of a quick battery


def battery(
    op: Op,
    device: str,
    *,
    impl: Impl | None = None,
    dtypes: Sequence[str] = (),
    quick: bool = False,
    max_elements: int | None = None,
) -> list[Trial]:
    """The trials of an op on one device, in the order of their kinds, each once; with `impl`, inside its domain.

    `dtypes` restricts the op's dtypes. `max_elements` limits the inputs where calls are slow (Triton's interpreter);
    fewer trials are made there.
    """
    bases = Bases(Domain(op, impl), device, dtypes=dtypes, quick=quick, max_elements=max_elements)
    trials: dict[str, Trial] = {}
    for generate in (*_KINDS, *(() if quick else _SLOW_KINDS)):
        for trial in generate(bases):
            if _is_allowed(bases, trial):
                trials.setdefault(trial.key, trial)
    return _thin_out(op, list(trials.values()))


def impl_batteries(
    op: Op,
    impls: Sequence[Impl],
    device: str,
    *,
    dtypes: Sequence[str] = (),
    quick: bool = False,
    max_elements: int | None = None,
) -> dict[str, list[Trial]]:
    """By implementation: the op's battery and, with `supports=`, the trials inside its domain that the op's lacks.

    Trials of the op's battery that an implementation refuses are counted as outside, with its reason. One that draws
    its own random numbers has a battery of small trials.
    """
    shared = battery(op, device, dtypes=dtypes, quick=quick, max_elements=max_elements)
    keys = {trial.key for trial in shared}
    of_impl = {}
    for impl in impls:
        if impl.random:
            most = min(max_elements or RANDOM_ELEMENTS, RANDOM_ELEMENTS)
            of_impl[impl.name] = battery(op, device, impl=impl, dtypes=dtypes, quick=quick, max_elements=most)
            continue
        own: list[Trial] = []
        if impl.supports is not None:
            own = battery(op, device, impl=impl, dtypes=dtypes, quick=quick, max_elements=max_elements)
        of_impl[impl.name] = [*shared, *(trial for trial in own if trial.key not in keys)]
    return of_impl


def _is_allowed(bases: Bases, trial: Trial) -> bool:
    if not (bases.domain.takes(trial) and allowed_inputs(bases.op, trial)):
        return False
    if trial.kind == "large":
        return not bases.slow
    most = LONG_ELEMENTS if trial.kind == "long" else bases.max_elements
    within_work = math.prod(trial.case.shape) <= _MAX_WORK or trial.case.dims == bases.regular.dims
    return largest_input(bases.op, trial.case) <= most and within_work


def _thin_out(op: Op, trials: list[Trial]) -> list[Trial]:
    """Fewer trials of each kind where all together would take too long: a domain may have large cases alone."""
    elements = {trial.key: 0 if trial.kind == "large" else largest_input(op, trial.case) for trial in trials}
    share = _MAX_TOTAL_ELEMENTS / max(1, sum(elements.values()))
    if share >= 1:
        return trials
    kept = set()
    for kind in dict.fromkeys(trial.kind for trial in trials):
        keys = [trial.key for trial in trials if trial.kind == kind]
        kept |= set(spread(keys, max(2, int(share * len(keys)))))
    return [trial for trial in trials if trial.key in kept]
