"""The tables of results fit the screen, and the closing lines answer the question."""

import io

import pytest
from rich.console import Console

from kernellab.record.journal import empty_record
from kernellab.record.verdict import derive
from kernellab.reporting.terminal.results import show
from support.records import result, timed


def shown(*results, width=200, terminal=True, stages=("check", "time"), trials=()):
    ceilings = {"copy_gbps": 100.0, "matmul_tflops": {"float32": 1.0}}
    record = {
        **empty_record(),
        "results": list(results),
        "machine": {"ceilings": ceilings, "device": "cpu"},
        "stages": list(stages),
        "complete": True,
        "trials": list(trials),
    }
    out = io.StringIO()
    show(derive(record), Console(file=out, width=width, force_terminal=terminal, color_system=None, highlight=False))
    return out.getvalue()


WRONG = result("liar", status="wrong", reason="values: error 8.4e+06, limit 4; at [0, 0] 0, should be −3.96")


@pytest.mark.parametrize("width", [60, 80, 100, 140])
def test_nothing_is_wider_than_the_screen(width):
    text = shown(timed("manual", 300), timed("torch", 100), timed("triton-with-a-long-name", 50), WRONG, width=width)
    assert max(len(line.rstrip()) for line in text.splitlines()) <= width
    assert "triton-with-a-long-name" in text


def test_the_fastest_comes_first_and_wrong_ones_last_with_the_reason():
    lines = shown(timed("manual", 300), WRONG, timed("torch", 100), timed("triton", 50)).splitlines()
    order = [line.split()[0] for line in lines[2:6]]
    assert order == ["triton", "torch", "manual", "liar"]
    assert "wrong: values: error 8.4e+06" in lines[5]


def test_the_closing_line_answers_in_words():
    text = shown(timed("manual", 300), timed("torch", 100), timed("triton", 50), WRONG)
    assert "f 8 · float32: triton is fastest, 2× as fast as torch; 5.99× as fast as manual, at 20 % of this" in text
    assert "3 results right, 1 not right: f liar." in text
    same = shown(timed("manual", 100), timed("torch", 100))
    assert "are equally fast" in same


def test_times_that_no_clock_outside_has_confirmed_are_named_once_with_the_reason():
    def checked(impl, us, verdict, reason):
        entry = timed(impl, us)
        entry["times"][0]["cross_check"] = {"verdict": verdict, "reason": reason}
        return entry

    unclear = ("not cross-checked", "its batches take less than 2 ms")
    text = shown(checked("manual", 300, "agrees", None), checked("torch", 100, *unclear), checked("cpp", 90, *unclear))
    assert text.count("not cross-checked") == 1
    assert " not cross-checked (cpp, torch): its batches take less than 2 ms\n" in text
    assert "cross" not in shown(checked("manual", 300, "agrees", None), timed("torch", 100))


def test_times_of_another_timer_or_a_warm_cache_are_labelled():
    def shown_with(**series):
        entry = timed("torch", 100)
        entry["times"][0] |= series
        return shown(entry)

    assert "f · 8 · float32 · cpu\n" in shown_with()
    assert "f · 8 · float32 · cpu · warm cache\n" in shown_with(cache="warm")
    assert "f · 8 · float32 · cpu · host timer, warm cache\n" in shown_with(timer="host", cache="warm")
    assert "f 8 · float32 · launch timer: torch takes 100.1 µs." in shown_with(timer="launch")


def tried(impl, *statuses):
    """The trials of a battery."""
    about = {"op": "f", "impl": impl, "interpreter": False, "reason": "values: 1, should be 2"}
    trial = {"kind": "sizes", "label": "7 · float32"}
    return [{**about, "number": n, "trial": trial, "status": status} for n, status in enumerate(statuses)]


def checked(impl):
    entry = timed(impl, 1)
    at = {"dims": entry["case"]["dims"], "interpreter": False}
    return {**entry, "times": [], "check": {**entry["check"], "checked_at": at}}


@pytest.mark.parametrize(
    ("trials", "message"),
    [
        (
            [*tried("torch", "ok", "ok"), *tried("mine", "ok", "wrong", "error")],
            "1 result right, 1 not right beyond the declared case: f mine.\n"
            "5 trials in the battery, 2 failed: f mine.\n",
        ),
        (
            [*tried("torch", "ok"), *tried("mine", "ok", "unknown")],
            "2 results right.\n2 trials in the battery, all passed; 1 could not be judged: f mine.\n",
        ),
        (
            [*tried("torch", "unknown"), *tried("mine", "unknown")],
            "0 results right, 2 cannot be judged: f torch, mine.\n"
            "No trial of the battery could be judged: f torch, f mine.\n",
        ),
        (
            tried("mine", "outside"),
            "2 results right, of them 2 at the declared case only: f torch, mine.\nNo trial of the battery applies.\n",
        ),
    ],
)
def test_an_implementation_that_fails_the_battery_is_not_called_right(trials, message):
    text = shown(checked("torch"), checked("mine"), stages=("check", "battery"), trials=trials)
    assert text.endswith(message)
    assert ("right at the declared case, error 0.5" in text) is (
        "beyond the declared case" in message or "cannot be judged" in message
    )
    assert ("; error: 2 of 3 trials failed, the first at 7 · float32: " in text) is ("failed" in message)


def test_right_is_said_with_the_number_of_trials_or_with_the_one_case():
    trials = [*tried("torch", "ok", "ok"), *tried("mine", "outside")]
    text = shown(checked("torch"), checked("mine"), stages=("check", "battery"), trials=trials)
    assert " torch  right, 2 trials, error 0.5\n" in text
    assert " mine   right at the declared case only, error 0.5 (" in text
    assert " torch  right, error 0.5\n" in shown(checked("torch"), stages=("check",))


def test_a_lead_that_is_not_resolved_is_not_claimed():
    noisy = timed("noisy", 100)
    noisy["times"][0]["samples_us"] = [50.0, 150.0] * 10
    assert "is not resolved" in shown(timed("torch", 101), noisy)


def test_a_ceiling_that_was_measured_too_low_is_doubted():
    assert "--refresh-ceilings" in shown(timed("torch", 5))


def test_piped_reasons_stay_on_one_line():
    long = result("liar", status="error", reason="x" * 400)
    assert "x" * 400 in shown(timed("torch", 100), long, width=80, terminal=False)
