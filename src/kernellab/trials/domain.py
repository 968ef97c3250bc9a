"""The domain: at which cases an op is defined, and which trials an implementation accepts. No torch.

The generators of trials ask `is_defined` about each case; `refusal` is asked before an implementation is called.
"""

from __future__ import annotations

from kernellab.declaration.case import Case
from kernellab.declaration.op import Impl, Op
from kernellab.trials.trial import Trial


def is_defined(op: Op, case: Case) -> bool:
    """Whether the op's `where=` accepts the case."""
    try:
        return op.where is None or bool(op.where(case))
    except Exception:  # for example one that divides by a dim of size 0
        return False


def refusal(impl: Impl, trial: Trial) -> str | None:
    """Why an implementation does not take a trial, or None when it does. Raises whatever `supports=` raises."""
    strided = [name for name in trial.strided_inputs if name in impl.contiguous]
    return f"takes {strided[0]} only contiguous" if strided else impl.refusal(trial.case_for_supports)
