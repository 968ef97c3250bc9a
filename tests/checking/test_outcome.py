"""What comes of a trial and of a checked case, as the record stores it."""

import json

from kernellab.accuracy.errors import Errors
from kernellab.checking.outcome import CaseOutcome, Outcome, OutsideVariant, PeerErrors
from kernellab.declaration.case import Case

ERRORS = Errors(1.5, float("inf"), 0.25, 1e-7, (3, 4))
STORED_ERRORS = {"max": 1.5, "q999": None, "rel_l2": 0.25, "max_abs": 1e-7, "at": [3, 4]}
CASE = Case({"N": 4}, "float32", {"mode": "add"})


def test_a_right_trial_stores_its_errors_and_notes_and_not_its_first_call():
    outcome = Outcome("ok", errors=ERRORS, peer=PeerErrors("torch", ERRORS), first_call_s=0.5)
    assert outcome.with_notes(["a", "b"]).to_json() == {
        "status": "ok",
        "reason": None,
        "errors": STORED_ERRORS,
        "peer": {"impl": "torch", **STORED_ERRORS},
        "notes": ["a", "b"],
    }


def test_a_failed_trial_stores_only_what_applies():
    assert Outcome("wrong", "values: …", excess=3.0).to_json() == {"status": "wrong", "reason": "values: …"}
    failed = Outcome("error", "ValueError", traceback="line 1").to_json()
    assert failed == {"status": "error", "reason": "ValueError", "traceback": "line 1"}
    assert Outcome("oom", "no memory", needed_bytes=8).to_json() == {"status": "oom", "reason": "no memory"}


def test_a_checked_case_stores_the_case_and_keeps_its_errors_when_an_option_fails():
    right = Outcome("ok", errors=ERRORS, peer=PeerErrors("manual", ERRORS), notes=("n",), first_call_s=0.5)
    outside = (OutsideVariant(CASE, "adds only"),)
    checked = CaseOutcome("wrong", "why", CASE, False, 2, outside, (right, Outcome("wrong", "why")))
    stored = checked.to_json()
    assert json.loads(json.dumps(stored)) == stored
    assert (stored["status"], stored["reason"], stored["trials"], stored["notes"]) == ("wrong", "why", 2, ["n"])
    assert stored["checked_at"] == {**CASE.to_json(), "interpreter": False}
    assert stored["outside"] == [{"case": CASE.to_json(), "reason": "adds only"}]
    assert (stored["errors"], stored["first_call_s"]) == (STORED_ERRORS, 0.5)


def test_a_skipped_case_has_no_errors():
    stored = CaseOutcome("skipped", "never", CASE, True).to_json()
    assert set(stored) == {"status", "reason", "checked_at", "trials", "outside", "notes"}
    assert (stored["trials"], stored["outside"], stored["notes"]) == (0, [], [])


def test_a_case_that_runs_out_of_memory_stores_how_much_was_needed():
    stored = CaseOutcome("oom", "why", CASE, False, 1, (), (Outcome("oom", "why", needed_bytes=1 << 40),)).to_json()
    assert stored["needed_bytes"] == 1 << 40
