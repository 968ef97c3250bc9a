"""What a comparison says in words: the answer first, and every figure with its sign."""

import pytest

from kernellab.comparison.compare import Side, compare
from kernellab.reporting.comparisons import words
from support.comparisons import random_run, run, variation
from support.records import result

STEADY = [100.0 + i / 100 for i in range(20)]


def compared(before, after, **options):
    known = options.pop("known", variation(us=50.0))
    return compare(Side("runs/a", [before]), Side("runs/b", [after]), load=lambda machine: known, **options)


@pytest.mark.parametrize(
    ("ratio", "text"),
    [(1.031, "+3.1 %"), (0.9975, "−0.25 %"), (1.0, "+0.00 %"), (2.4, "+140 %"), (12.0, "×12"), (0.01, "×0.01")],
)
def test_a_change_reads_as_people_say_it(ratio, text):
    assert words.change(ratio) == text


def test_the_answer_names_what_is_slower():
    answer = words.answer(compared(run(result("f", STEADY)), run(result("f", [1.1 * us for us in STEADY]))))
    assert answer == "1 of 1 time is slower: f f at 8 · float32: +10 %."
    several = compared(random_run(1), random_run(2, slower={3: 1.1, 4: 2.0}))
    assert words.answer(several).startswith("2 of 10 times are slower, most: f impl-4 at 8 · float32: +")


def test_the_answer_says_if_what_is_slower_cannot_be_trusted():
    drifting = [100.0 + i for i in range(60)]
    comparison = compared(run(result("f", STEADY)), run(result("f", [9 * us for us in drifting])))
    assert words.answer(comparison).endswith("; it cannot be trusted.")


def test_the_answer_tells_the_same_from_not_known():
    same = run(result("f", STEADY))
    assert words.answer(compared(same, same, precision=0.05)) == "Nothing is slower or worse: 1 time is the same."
    assert words.answer(compared(same, same)).startswith(
        "Cannot tell: 1 of 1 time is not resolved: differences up to about ±0.7"
    )
    faster = run(result("f", [us / 2 for us in STEADY]))
    assert words.answer(compared(same, faster)) == (
        "Nothing is slower or worse; 1 of 1 time is faster: f f at 8 · float32: −50 %."
    )


def test_the_answer_names_what_failed():
    before, wrong = (
        run(result("f", STEADY), result("g", STEADY)),
        run(result("f", status="wrong", reason="x"), result("g", [2 * us for us in STEADY])),
    )
    failed = "1 result failed that did not before: f f at 8 · float32 (wrong)"
    assert words.answer(compared(before, wrong)) == f"1 of 1 time is slower: f g at 8 · float32: +100 %; {failed}."
    assert words.answer(compared(run(result("f")), run(result("f", status="wrong", reason="x")))) == (
        f"{failed}; no time is slower."
    )
    assert words.answer(compared(run(result("f")), run(result("f")))) == (
        "Nothing is worse: the statuses of 1 result were compared, no times."
    )
    unknown = compared(run(result("f")), run(result("f", status="unknown", reason="x")))
    assert words.answer(unknown).startswith("Cannot tell: 1 result could not be judged after and could before.")


def test_the_notes_say_which_variation_was_used():
    before, after = run(result("f", STEADY)), run(result("f", STEADY[::-1]))
    assert words.notes(compared(before, after)) == [
        "Times vary by 0.16 % from run to run on this machine (klab doctor --aa, 10 runs on 2026-11-15)."
    ]
    (assumed,) = words.notes(compared(before, after, known=None))
    assert assumed.endswith("so 1 % is assumed, which is little for a CPU: klab doctor --aa measures it.")


def test_new_and_missing_results_are_named():
    comparison = compared(run(result("f", STEADY), result("old")), run(result("f"), result("new")))
    notes = words.notes(comparison)
    assert "1 result new: f new at 8 · float32." in notes
    assert "1 result missing after: f old at 8 · float32." in notes
    assert "1 result timed before and not after: f f at 8 · float32." in notes


def test_a_time_that_is_not_trusted_is_marked():
    drifting = [100.0 + 5 * i for i in range(40)]
    (pair,) = compared(run(result("f", drifting)), run(result("f", STEADY))).pairs
    assert words.remark(pair).startswith("not trusted: before ")
    (pair,) = compared(run(result("f", STEADY[:4])), run(result("f", STEADY[:4]))).pairs
    assert words.remark(pair).startswith("fewer than 8 rounds in a run")
