"""Is the measuring right: the arithmetic of `klab doctor --aa`, a real one, and what is remembered of it."""

import json

import pytest

from kernellab import cli
from kernellab.doctor import aa_runs as repeat
from kernellab.doctor.aa_summary import WAYS, summarise, variations
from kernellab.machine import variation
from kernellab.machine.environment import device_identity, machine_class

CASE = {"dims": {"R": 105, "N": 8}, "dtype": "float32", "options": {}, "layout": "contiguous", "device": "cpu"}
WOBBLE = [0.999, 1.001, 1.0, 1.0005, 0.9995, 1.0, 1.001, 0.999] * 4


def run_of(base=100.0, **factors):
    """A record of one run: each way's time is the base times its factor, wobbling its own way from round to round."""

    def times(impl, at):
        samples = [base * factors.get(impl, 1.0) * w for w in WOBBLE[at:] + WOBBLE[:at]]
        kind = {"pass": "forward", "timer": "clock", "cache": "cold", "status": "ok", "reason": None}
        return [{**kind, "samples_us": samples, "rounds": list(range(len(samples)))}]

    return {
        "machine": {"class": "a machine"},
        "environment": {"packages": {"torch": "2"}},
        "results": [
            {
                "op": "aa",
                "impl": impl,
                "kind": "python",
                "case": CASE,
                "check": {"status": "ok", "reason": None},
                "times": times(impl, at),
                "cost": {},
            }
            for at, impl in enumerate(WAYS)
        ],
    }


def test_the_summary_counts_finds_misses_and_false_alarms():
    honest = {"plus1": 1.01, "plus2": 1.02, "plus5": 1.05}
    records = [
        run_of(100, **honest),
        run_of(102, **honest | {"b": 1.02}),  # a false alarm
        run_of(98, **honest | {"plus1": 1.0, "plus2": 0.98}),  # a miss, and one the wrong way round
    ]
    summary = summarise(records)
    (case,) = summary["cases"]
    assert (summary["runs"], summary["machine"]) == (3, "a machine")
    equal = case["equal"]
    assert [equal[k] for k in ("of", "covers", "same", "not_resolved", "false_alarms")] == [3, 2, 2, 0, 1]
    counted = {m["percent"]: [m["found"], m["missed"], m["wrong_way"]] for m in case["more_work"]}
    assert counted == {1: [2, 1, 0], 2: [2, 0, 1], 5: [3, 0, 0]}
    assert case["more_work"][2]["measured"] == pytest.approx(0.05, abs=0.002)
    assert 0 < equal["half_width"] < 0.003
    assert case["median_us"] == pytest.approx(100, rel=1e-3)
    assert case["variation"] == pytest.approx(0.02, rel=1e-2)  # of 98, 100 and 102
    assert case["trust"] == {"trusted": 3}


def test_a_way_that_was_not_timed_counts_nowhere():
    record = run_of()
    record["results"] = [r for r in record["results"] if r["impl"] != "b"]
    summary = summarise([record])
    assert summary["cases"][0]["equal"]["of"] == 0
    assert variations(summary) == []  # one run does not vary
    assert summarise([]) == {"runs": 0, "machine": None, "versions": None, "cases": []}


def test_a_class_of_machines_knows_no_serial_number():
    gpu = {"name": "NVIDIA H200", "uuid": "GPU-123", "driver": "580"}
    env = {"gpus": [gpu], "cpu": {"name": "Xeon", "cores": 2}}
    assert machine_class(env, "GPU-123") == "NVIDIA H200 driver 580"
    assert device_identity(env, "GPU-123") == "NVIDIA H200 GPU-123 driver 580"


def test_the_variation_is_remembered_and_read_back():
    assert variation.load_variation("never seen") is None
    summary = summarise([run_of(98), run_of(102)])
    file = variation.store_variation("a machine, 2 threads", summary["versions"], 2, variations(summary))
    known = variation.load_variation("a machine, 2 threads")
    assert (known["runs"], known["versions"], known["cases"][0]["case"]) == (2, {"torch": "2"}, CASE)
    assert known["cases"][0]["variation"] == pytest.approx(0.0283, abs=1e-3)
    file.write_text("half of it")
    assert variation.load_variation("a machine, 2 threads") is None


def test_doctor_measures_equals_for_real(klab, tmp_path):
    command = ("doctor", "--aa", "--runs", "2", "--seconds", "0.05", "--device", "cpu", "--json", "--out", "kept")
    seen = klab(*command)
    assert seen.code == 0, seen.err
    summary = json.loads(seen.out)
    assert (summary["runs"], len(summary["cases"])) == (2, 2)
    for case in summary["cases"]:
        assert case["equal"]["of"] == 2
        assert [m["percent"] for m in case["more_work"]] == [1, 2, 5]
        assert case["median_us"] > 0
    assert "A/A run 2 of 2" in seen.err
    record = json.loads((tmp_path / "kept" / "run-001" / "run.json").read_text())
    assert record["complete"]
    assert record["machine"]["ceilings"] is None  # nothing but times
    assert all(r["inside"] is None for r in record["results"])
    assert variation.load_variation(record["machine"]["class"])["runs"] == 2
    again = klab(*command)
    assert (again.code, "already holds a run" in again.err) == (2, True)


def test_runs_that_all_fail_are_given_up_and_cannot_tell(monkeypatch, capsys):
    monkeypatch.setattr(repeat, "_one", lambda *args: "failed: no luck")
    assert cli.run(["doctor", "--aa", "--runs", "50"]) == 3
    seen = capsys.readouterr()
    assert seen.err.count("failed: no luck") == 3
    assert seen.out == "no run could be completed\n"


def test_an_interruption_keeps_what_there_is(monkeypatch, capsys):
    def once(*args):
        found = args[-1]
        if found.records:
            raise KeyboardInterrupt
        found.records.append(run_of())

    monkeypatch.setattr(repeat, "_one", once)
    assert cli.run(["doctor", "--aa"]) == 130
    seen = capsys.readouterr()
    assert "A/A run 1 of 10" in seen.err
    assert "covers 1 in 1 of 1 runs" in seen.out


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--runs", "2"], "says how to run --aa"),
        (["--aa", "--runs", "0"], "must be above 0"),
        (["--aa", "--device", "gpu"], "no device 'gpu'"),
    ],
)
def test_a_bad_request_is_one_sentence(klab, args, said):
    seen = klab("doctor", *args)
    assert (seen.code, seen.out) == (2, "")
    assert said in seen.err
    assert "Traceback" not in seen.err
