"""What the trials of a record come to: failures counted by their reason."""

import io

import pytest
from rich.console import Console

from kernellab.record.batteries import failure_sentence, repeated_failures, sentences, summaries
from kernellab.record.verdict import derive
from kernellab.reporting.terminal import battery as report
from support.records import record, result


def outcome(number, kind, status, reason, label=None):
    trial = {"kind": kind, "label": label or f"{number} · float32"}
    return {
        "op": "f",
        "impl": "mine",
        "number": number,
        "interpreter": False,
        "trial": trial,
        "status": status,
        "reason": reason,
    }


FIFTY = [
    outcome(n, "sizes" if n < 20 else "values", "error", f"ValueError: no {n}×{n} here (mine.py:12)") for n in range(50)
]


def lines(trials, verbose=False):
    out = Console(file=io.StringIO(), width=200)
    report.show(summaries(trials), [], out, verbose=verbose)
    return [line for line in out.file.getvalue().splitlines() if line.startswith(" mine  ") and ": " in line]


def test_one_error_is_reported_once_with_its_count_and_line():
    (summary,) = summaries(FIFTY)
    assert len(summary["failures"]) == 50
    sentence = "0 · float32: ValueError: no 0×0 here (mine.py:12); at 50 trials in all: sizes 20, values 30"
    assert [r.sentence for r in repeated_failures(summary["failures"])] == [sentence]
    assert sentences(summary) == ["f mine: 50 of 50 trials failed", f"  error: sizes: {sentence}"]
    assert lines(FIFTY) == [f" mine  error: sizes: {sentence}"]
    assert len([line for line in lines(FIFTY, verbose=True) if "error: " in line]) == 50


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        ("error", "ValueError: no 1×1 here (mine.py:13)"),  # another line
        ("error", "TypeError: no 1×1 here (mine.py:12)"),  # another type
        ("crashed", "segmentation fault"),
        ("wrong", "shape 3×4, should be 4×3"),
    ],
)
def test_another_reason_is_another_failure(status, reason):
    (summary,) = summaries([*FIFTY, outcome(50, "calls", status, reason), outcome(51, "calls", status, reason)])
    assert [r.count for r in repeated_failures(summary["failures"])] == [50, 2]


def test_wrong_values_are_shown_trial_by_trial_up_to_three_of_a_kind():
    trials = [outcome(n, "values", "wrong", f"values: error {n}e6, limit 4") for n in range(5)]
    shown = lines(trials)
    assert len(shown) == 4
    assert shown[-1] == " mine  values: and 2 trials more (--verbose)"


def test_reasons_that_differ_in_numbers_alone_are_counted_together():
    reasons = [f"needs about {n} GiB of memory, {n - 1} are free" for n in (64, 80)] + ["contiguous inputs only"]
    (summary,) = summaries([outcome(n, "large", "outside", reason) for n, reason in enumerate(reasons)])
    assert summary["outside"] == {"needs about 64 GiB of memory, 63 are free": 2, "contiguous inputs only": 1}


@pytest.mark.parametrize(
    ("at_case", "beyond", "status"),
    [
        ("ok", "wrong", "wrong"),
        ("ok", "ok", "ok"),
        ("skipped", "wrong", "wrong"),  # the declared case is outside its domain, and it fails inside
        ("skipped", "ok", "skipped"),
        ("wrong", "crashed", "wrong"),  # the reason at the declared case is the one to show
    ],
)
def test_the_status_is_the_worst_of_the_declared_case_and_of_what_was_tried_beyond(at_case, beyond, status):
    reason = None if at_case == "ok" else "at the declared case"
    rec = record(result("a", status=at_case, reason=reason))
    tried = outcome(1, "sizes", beyond, None if beyond == "ok" else "beyond")
    rec["trials"] = [{**tried, "op": "f", "impl": "a"}]
    derived = derive(rec)["results"][0]["derived"]
    assert derived["status"] == status
    assert derived["at_case"]["status"] == at_case


def test_an_imprecise_battery_names_its_first_trial_and_its_error():
    reason = "error 85, limit 6.86; at [] 11468.94, should be 11468.81"
    trials = [
        outcome(0, "sizes", "ok", None),
        outcome(1, "values", "imprecise", reason),
        outcome(2, "sizes", "ok", None),
    ]
    (summary,) = summaries(trials)
    assert failure_sentence(summary) == f"beyond the limit at 1 of 3 trials, the first at 1 · float32: {reason}"
