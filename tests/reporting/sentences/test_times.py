"""What is said of times, comparisons and energies beside the table, and in the answer."""

import io

from rich.console import Console

from kernellab.energy.rounds import not_measured
from kernellab.record.verdict import derive
from kernellab.reporting.sentences.answer import closing
from kernellab.reporting.terminal.details import detail_lines
from kernellab.reporting.terminal.results import show
from support.powered import energy, powered, powered_record


def shown(*results):
    record, out = derive(powered_record(*results)), io.StringIO()
    record["stages"] = ["check", "time"]
    show(record, Console(file=out, width=240, force_terminal=True, color_system=None, highlight=False))
    return out.getvalue()


def answer(*results):
    return closing(derive(powered_record(*results)))[0]


def test_the_answer_names_the_power_limit_and_says_that_the_comparison_holds():
    line = answer(powered("a", 1800), powered("b", 1900))
    assert line.endswith(
        "a is fastest, 1.056× as fast as b, at 101 % of this machine's matmul rate at 1488 MHz; "
        "the GPU was at its power limit of 700 W: times hold for that state, the comparison holds."
    )


def test_an_implementation_alone_has_no_comparison():
    assert answer(powered("a", 1800)).endswith("the GPU was at its power limit of 700 W: times hold for that state.")


def test_a_comparison_that_was_not_examined_is_not_said_to_hold():
    line = answer(powered("a", 1800, order=False), powered("b", 1900, order=False))
    assert line.endswith("times hold for that state, it is not known whether the comparison does.")


def test_a_comparison_that_does_not_hold_is_marked_and_explained():
    slow_clock, fast_clock = powered("a", 1800, clock=1480.0), powered("b", 1700, clock=1540.0)
    assert "times hold for that state, the comparison is doubtful: uneven-clock." in answer(slow_clock, fast_clock)
    text = shown(slow_clock, fast_clock)
    assert "1.059× a (1.015–1.061) ?" in text
    assert "uneven-clock (b over a): the SM clock was 4.0 % higher while it ran than while the other did" in text
    assert text.count("uneven-clock (") == 1
    assert "comparisons hold" not in text


def test_a_line_below_the_table_says_that_comparisons_hold():
    text = shown(powered("a", 1800), powered("b", 1900))
    assert " throttled: the clock was throttled (sw-power-cap) in 20 of 20 readings" in text
    assert " comparisons hold: in every round both sides were affected alike" in text
    assert " ?" not in text
    assert "comparisons hold" not in shown(powered("a", 1800))


def test_the_rate_that_times_are_compared_with_is_named_where_it_is_not_the_highest():
    text = shown(powered("a", 1800), powered("b", 1900))
    assert " of matmul: of the rate at the clock while timing, 603 TFLOP/s at 1488 MHz; after a pause it is 800" in text
    assert "of matmul: of the rate" not in shown(powered("a", 1400, clock=1980.0))


def test_energy_is_a_column_and_less_of_it_is_said_where_it_is_resolved():
    pair = powered("a", 1800, 1.0), powered("b", 1801, 0.8)
    text = shown(*pair)
    assert "800.1 mJ ±0.02 %" in text
    assert "a and b are equally fast, b with 20 % less energy" in answer(*pair)
    swapped = powered("a", 1801, 1.0), powered("b", 1800, 0.8)
    assert "b and a are equally fast, b with 20 % less energy" in answer(*swapped)
    assert "energy" not in answer(powered("a", 1800, 1.0), powered("b", 1801, 1.005))
    assert "b is fastest, 1.059× as fast as a, with 20 % less energy" in answer(
        powered("a", 1800, 1.0), powered("b", 1700, 0.8)
    )
    assert "a takes 1.801 ms and 1 J" in answer(powered("a", 1800, 1.0))


def test_energy_that_is_not_measured_has_one_reason():
    results = [powered("a", 1800), powered("b", 1900)]
    for result in results:
        result["times"][0]["energy"] = not_measured("the GPU is divided by MIG")
    text = shown(*results)
    assert text.count("energy is not measured: the GPU is divided by MIG") == 1
    assert "mJ" not in text


def test_energies_beside_other_processes_are_shown_and_not_compared():
    contended = powered("a", 1800), powered("b", 1801)
    for result, joules in zip(contended, (1.0, 0.8), strict=True):
        result["times"][0]["energy"] = {**energy(joules), "contended": "1 other process used the GPU"}
    text = shown(*contended)
    assert "energies are not compared: 1 other process used the GPU" in text
    assert "less energy" not in text


def test_how_energy_was_measured_is_a_line():
    (line,) = [line for line in detail_lines(powered("a", 1800, 1.0)) if line.startswith("energy")]
    assert line == (
        "energy: 1 J a call, 1.5 ms a call; 666.7 W; 12 blocks of 0.32 s; the counter resolves 0.3 %; "
        "it moves every 100 ms and follows the power in 0.25 s; 120 W without work"
    )
