"""The script that shows that energies are resolved: what it counts, and its page."""

import json

import pytest

from kernellab.energy.rounds import not_measured
from support.benchmarks import load_script
from support.powered import energy, powered, powered_record
from support.records import ENVIRONMENT


@pytest.fixture(scope="module")
def script():
    return load_script("energy")


def record(*energies_of_runs):
    """A process with one run for each triple of energies: of random numbers, again, and of zeros."""
    results = []
    for number, energies in enumerate(energies_of_runs):
        for impl, measured in zip(("random", "random-again", "zeros"), energies, strict=True):
            made = powered(impl, 1800, order=False)
            made["case"] = {**made["case"], "dims": {"R": 1001 + number}}
            made["times"][0]["energy"] = energy(measured) if isinstance(measured, float) else not_measured(measured)
            results.append(made)
    made = powered_record(*results)
    made["environment"], made["began"] = ENVIRONMENT, "2026-11-20T10:00:00+0000"
    made["machine"] |= {"class": "an H200", "name": "an H200 1"}
    return made


def test_goals_are_met_where_zeros_take_less_and_equal_products_do_not_differ(script):
    runs, reasons = script.read_runs([record((1.0, 1.002, 0.7), (1.1, 1.1, 0.8)), record((1.0, 1.0, 0.75))])
    assert (len(runs), reasons) == (3, {})
    assert script.goals_are_met(runs)
    text = "\n".join(script.summary(runs, 20))
    assert "3 of 20 runs" in text
    assert "less energy in 3" in text
    assert "different in 0, the same in 3" in text
    assert "the counter moves every 100.0 to 100.0 ms" in text
    assert "zeros: 750.1 mJ a call" in text


@pytest.mark.parametrize("energies", [(1.0, 1.05, 0.7), (1.0, 1.0, 1.2), (1.0, 1.0, 1.0), (1.0, 0.9, 0.7)])
def test_a_goal_is_missed_where_they_are_not(script, energies):
    runs, _ = script.read_runs([record((1.0, 1.0, 0.7), energies)])
    assert not script.goals_are_met(runs)


def test_a_run_without_a_counter_is_no_run(script):
    runs, reasons = script.read_runs([record((1.0, 1.0, 0.7), ("no counter", "no counter", "no counter"))])
    assert (len(runs), reasons) == (1, {"no counter": 3})


def test_the_page_has_a_line_for_every_run(script):
    records = [record((1.0, 1.002, 0.7), (1.1, 1.1, 0.8))]
    lines = script.page(records, script.read_runs(records)[0]).splitlines()
    assert lines[2] == "- machine: an H200"
    assert "| 2 | 0.7273 (0.7273–0.7273) | less | 1.0000 (1.0000–1.0000) | same |" in lines


def test_finished_processes_are_not_started_again(script, tmp_path, monkeypatch):
    started = []

    def run(command, **_):
        started.append(command[command.index("--R") + 1])
        folder = tmp_path / f"process-{len(started)}"
        folder.mkdir(exist_ok=True)
        (folder / "run.json").write_text(json.dumps(record((1.0, 1.0, 0.7))))
        return type("Done", (), {"returncode": 0})

    monkeypatch.setattr(script.subprocess, "run", run)
    args = type("Args", (), {"out": tmp_path, "runs": 7, "limit": 60.0, "device": "cuda"})
    script.measure(args)
    assert started == ["1001,1002,1003,1004,1005", "1006,1007"]
    script.measure(args)
    assert len(started) == 2
    args.limit, args.runs = -1.0, 12
    script.measure(args)
    assert len(started) == 2  # the time is up
