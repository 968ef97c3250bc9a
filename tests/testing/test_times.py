"""The table of times."""

from kernellab.record import verdict
from kernellab.testing.times import lines, time_row
from support.records import record, result, timed


def row(**more):
    (seen,) = verdict.derive(record(timed(more.pop("impl", "cpp"), 100.0)))["results"]
    return time_row(seen, "forward", **more)


def test_a_row_has_what_the_table_shows():
    assert row(compared="1.35× as long as torch") == {
        "op": "f",
        "case": "8 · float32",
        "impl": "cpp",
        "time": "100.1 µs",
        "spread": "±0.06 %",
        "trust": "trusted",
        "compared": "1.35× as long as torch",
    }


def test_what_was_not_timed_has_no_row():
    (seen,) = verdict.derive(record(result("cuda", status="skipped", reason="needs a GPU")))["results"]
    assert time_row(seen, "forward") is None
    (seen,) = verdict.derive(record(timed("cpp", 100.0)))["results"]
    assert time_row(seen, "backward") is None


def test_a_terminal_gets_what_fits_it_and_a_log_everything():
    rows = [("tests/test_of_a_long_name.py::test_of_a_long_name[and-parameters]", row(compared="2× as long as torch"))]
    narrow, wide = lines(rows, 80), lines(rows, None)
    assert all(len(line) <= 80 for line in narrow)
    assert "[and-parameters]" in wide[1]


def test_names_cannot_command_the_terminal():
    (_, line) = lines([("t", row(impl="\x1b[31mred"))], None)
    assert "\x1b" not in line
