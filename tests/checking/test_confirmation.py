"""Confirming errors that are slightly above the limit."""

import pytest

from kernellab.checking.confirmation import examine_and_confirm
from kernellab.checking.outcome import Outcome
from kernellab.declaration.case import Case
from kernellab.trials.trial import Trial


@pytest.mark.parametrize(
    ("above", "excess", "status", "tries"),
    [({0}, 2.0, "ok", 2), ({0, 1, 2}, 2.0, "ok", 4), ({0, 1, 2, 3}, 2.0, "wrong", 4), ({0}, 9.0, "wrong", 1)],
)
def test_a_small_excess_is_wrong_only_if_three_other_draws_exceed_the_limit_too(above, excess, status, tries):
    drawn = []

    def examine(trial):
        drawn.append(trial.draw)
        wrong = trial.draw in above
        return Outcome("wrong", "values", excess=excess) if wrong else Outcome("ok")

    outcome = examine_and_confirm(examine, Trial("sizes", Case({"N": 3}, "float32")))
    assert (outcome.status, len(drawn)) == (status, tries)
    assert status == "wrong" or "chance" in outcome.notes[0]
