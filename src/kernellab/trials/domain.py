"""The domain: at which cases an op is defined, and which trials an implementation accepts. No torch.

The generators of trials ask a `Domain` about each case and trial; `refusal` is asked before an implementation is
called.
"""

from __future__ import annotations

from kernellab.declaration.case import Case
from kernellab.declaration.op import Impl, Op
from kernellab.trials.trial import Trial

_EXPLORING_QUESTIONS = 4000  # a supports= may be slow; a number, not a time: the battery must be the same every time


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


class Domain:
    """What the `where=` of an op and, with an implementation, its `supports=` accept. Answers are remembered.

    A `supports=` that raises accepts nothing there, like a `where=` that raises: it may divide by a size of 0.
    """

    def __init__(self, op: Op, impl: Impl | None = None) -> None:
        self.op, self._impl = op, impl
        self._answers: dict[str, bool] = {}

    @property
    def is_bounded(self) -> bool:
        """Whether there is anything to ask."""
        return self.op.where is not None or self._impl is not None

    @property
    def is_explored(self) -> bool:
        """Whether so much was asked that no further sizes should be looked for."""
        return len(self._answers) >= _EXPLORING_QUESTIONS

    def accepts(self, case: Case) -> bool:
        """Whether the case, with contiguous inputs, is inside."""
        return self.takes(Trial("declared", case))

    def takes(self, trial: Trial) -> bool:
        """Whether the trial is inside, as far as its case and layouts are concerned."""
        if not self.is_bounded:
            return True
        asked = trial.case_for_supports
        key = f"{asked.key} {sorted(trial.layouts.items()) if trial.layouts else ''}"
        if key not in self._answers:
            self._answers[key] = is_defined(self.op, trial.case) and self._is_supported(trial)
        return self._answers[key]

    def _is_supported(self, trial: Trial) -> bool:
        if self._impl is None:
            return True
        try:
            plain = Trial(trial.kind, trial.case, layouts=trial.layouts)  # whether it has gradients shows in the call
            return refusal(self._impl, plain) is None
        except (Exception, SystemExit):
            return False
