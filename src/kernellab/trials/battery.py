"""The battery: the fixed set of trials that is generated from an op's declaration.

Each kind of trial is a function of the bases. To add a kind, add its name to `trial.KINDS` and its function here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

from kernellab.declaration.op import Op
from kernellab.trials import input_trials as kinds
from kernellab.trials.bases import Bases
from kernellab.trials.domain import is_defined
from kernellab.trials.gradient_trials import gradient_trials
from kernellab.trials.small_cases import largest_input
from kernellab.trials.trial import Trial
from kernellab.trials.trial_inputs import allowed_inputs

_MAX_ELEMENTS = 1 << 22  # of an input, except in trials of kind large

_KINDS: tuple[Callable[[Bases], Iterator[Trial]], ...] = (
    kinds.option_trials,
    kinds.dtype_trials,
    kinds.size_trials,
    kinds.rank_trials,
    kinds.layout_trials,
    kinds.value_trials,
    kinds.index_trials,
    gradient_trials,
    kinds.call_trials,
)
_SLOW_KINDS = (kinds.far_trials, kinds.large_trials)  # left out of a quick battery


def battery(
    op: Op, device: str, *, dtypes: Sequence[str] = (), quick: bool = False, max_elements: int | None = None
) -> list[Trial]:
    """The trials of an op on one device, in the order of their kinds, each once.

    `dtypes` restricts the op's dtypes. `max_elements` limits the inputs where calls are slow (Triton's interpreter);
    fewer trials are made there.
    """
    bases = Bases(op, device, dtypes=dtypes, quick=quick, max_elements=max_elements)
    trials: dict[str, Trial] = {}
    for generate in (*_KINDS, *(() if quick else _SLOW_KINDS)):
        for trial in generate(bases):
            if _is_allowed(bases, trial):
                trials.setdefault(trial.key, trial)
    return list(trials.values())


def _is_allowed(bases: Bases, trial: Trial) -> bool:
    if not (is_defined(bases.op, trial.case) and allowed_inputs(bases.op, trial)):
        return False
    most = bases.max_elements or (math.inf if trial.kind == "large" else _MAX_ELEMENTS)
    return largest_input(bases.op, trial.case) <= most
