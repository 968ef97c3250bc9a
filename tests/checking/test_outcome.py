"""What comes of a trial and of a checked case, as the record stores it."""

import json

from kernellab.accuracy.errors import Errors
from kernellab.base import shape
from kernellab.checking.outcome import CaseOutcome, Outcome, OutsideVariant, PeerErrors
from kernellab.declaration.case import Case
from kernellab.record.schema import CheckOutcome
from kernellab.trials.trial import Trial

ERRORS = Errors(1.5, float("inf"), 0.25, 1e-7, (3, 4))
STORED_ERRORS = {"max": 1.5, "q999": None, "rel_l2": 0.25, "max_abs": 1e-7, "at": [3, 4]}
CASE = Case({"N": 4}, "float32", {"mode": "add"})


TRIAL = Trial("sizes", CASE)


def stored(outcome):
    entry = outcome.at_trial(op="f", impl="mine", number=7, trial=TRIAL, interpreted=True)
    place = {"op": "f", "impl": "mine", "number": 7, "interpreter": True, "trial": TRIAL.to_labelled_json()}
    assert entry.items() >= place.items()
    return {name: value for name, value in entry.items() if name not in place}


def test_a_right_trial_stores_its_errors_and_notes_and_not_its_first_call():
    outcome = Outcome("ok", errors=ERRORS, peer=PeerErrors("torch", ERRORS), first_call_s=0.5)
    assert stored(outcome.with_notes(["a", "b"])) == {
        "status": "ok",
        "reason": None,
        "errors": STORED_ERRORS,
        "peer": {"impl": "torch", **STORED_ERRORS},
        "notes": ["a", "b"],
    }


def test_a_failed_trial_stores_only_what_applies():
    assert stored(Outcome("wrong", "values: …", excess=3.0)) == {"status": "wrong", "reason": "values: …"}
    failed = stored(Outcome("error", "ValueError", traceback="line 1"))
    assert failed == {"status": "error", "reason": "ValueError", "traceback": "line 1"}
    assert stored(Outcome("oom", "no memory", needed_bytes=8)) == {"status": "oom", "reason": "no memory"}


def test_a_checked_case_stores_the_case_and_keeps_its_errors_when_an_option_fails():
    right = Outcome("ok", errors=ERRORS, peer=PeerErrors("manual", ERRORS), notes=("n",), first_call_s=0.5)
    outside = (OutsideVariant(CASE, "adds only"),)
    checked = CaseOutcome("wrong", "why", CASE, False, 2, outside, (right, Outcome("wrong", "why")))
    check = checked.to_json()
    assert json.loads(json.dumps(check)) == check
    assert shape.difference(check, CheckOutcome) is None
    assert (check["status"], check["reason"], check["trials"], check["notes"]) == ("wrong", "why", 2, ["n"])
    assert check["checked_at"] == {**CASE.to_json(), "interpreter": False}
    assert check["outside"] == [{"case": CASE.to_json(), "reason": "adds only"}]
    assert (check["errors"], check["first_call_s"]) == (STORED_ERRORS, 0.5)


def test_a_skipped_case_has_no_errors():
    check = CaseOutcome("skipped", "never", CASE, True).to_json()
    assert set(check) == {"status", "reason", "checked_at", "trials", "outside", "notes"}
    assert (check["trials"], check["outside"], check["notes"]) == (0, [], [])


def test_a_case_that_runs_out_of_memory_stores_how_much_was_needed():
    check = CaseOutcome("oom", "why", CASE, False, 1, (), (Outcome("oom", "why", needed_bytes=1 << 40),)).to_json()
    assert check["needed_bytes"] == 1 << 40
