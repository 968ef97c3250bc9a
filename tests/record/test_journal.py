"""The journal and the record it folds into."""

import json

import pytest

from kernellab.base.errors import UserError
from kernellab.record.event import Event
from kernellab.record.journal import JOURNAL, RUN, Journal, begin, fold, is_being_written
from kernellab.record.reading import events_of, load, read_journal
from kernellab.record.schema import SCHEMA
from support.records import ENVIRONMENT, event

CASE = {"dims": {"...": [8]}, "dtype": "float32", "options": {}, "layout": "contiguous", "device": "cpu"}
HEAD = {
    "event": "run",
    "schema": SCHEMA,
    "command": ["klab"],
    "seed": 0,
    "environment": ENVIRONMENT,
    "settings": {"targets": []},
}
PLAN = {"event": "plan", "groups": [{"op": "f", "case": CASE, "impls": {"a": "python", "b": "python"}}], "sources": {}}


def about(name, **fields):
    return {"event": name, "op": "f", "case": CASE, **fields}


def rounds(*numbers):
    header = {"pass": "forward", "timer": "clock", "cache": "cold"}
    return [about("round", **header, round=n, samples_us={"a": 1.0, "b": 2.0}) for n in numbers]


def results(*events):
    return {r["impl"]: r for r in fold(map(Event.parse, [HEAD, PLAN, *events]))["results"]}


def test_a_plan_has_a_result_for_every_implementation_before_anything_ran():
    assert {k: v["check"] for k, v in results().items()} == {"a": None, "b": None}


def test_rounds_become_samples_and_timed_completes_them():
    times = results(*rounds(0, 1))["a"]["times"][0]
    assert (times["samples_us"], times["rounds"], times["status"]) == ([1.0, 1.0], [0, 1], "partial")
    assert results(*rounds(0), about("timed", impls=["a"]))["a"]["times"][0]["status"] == "ok"


def test_a_crash_while_timing_discards_the_samples_of_all_and_keeps_the_fault():
    fault = about("fault", impl="b", phase="time", status="crashed", reason="SIGSEGV")
    folded = results(*rounds(0, 1), fault, about("discard"), *rounds(0))
    assert folded["a"]["times"][0]["samples_us"] == [1.0]
    assert folded["b"]["times"][0]["status"] == "crashed"


def test_the_results_of_a_changed_op_are_dropped():
    assert results(about("void")) == {}


def test_what_is_written_can_be_read_back(tmp_path):
    journal = Journal(tmp_path)
    for entry in (HEAD, PLAN, *rounds(0)):
        journal.write(Event.parse(entry))
    journal.save()
    assert load(tmp_path) == load(tmp_path / RUN) == fold(events_of(read_journal(tmp_path)))


def test_a_half_written_last_line_is_dropped(tmp_path):
    lines = [json.dumps(e) for e in (HEAD, PLAN, *rounds(0))]
    (tmp_path / JOURNAL).write_text("\n".join(lines) + '\n{"event": "rou')
    assert len(read_journal(tmp_path)) == 3
    assert load(tmp_path)["results"][0]["times"][0]["samples_us"] == [1.0]


def test_appending_after_a_half_written_line_keeps_the_journal_readable(tmp_path):
    (tmp_path / JOURNAL).write_text(json.dumps(HEAD) + "\n" + json.dumps(PLAN) + '\n{"event": "rou')
    journal = Journal(tmp_path, events_of(read_journal(tmp_path)))
    journal.write(Event.parse(rounds(0)[0]))
    journal.write(event("complete"))
    assert load(tmp_path)["complete"] is True


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (RUN, "{", "damaged"),
        (RUN, "[]", "not a kernellab record"),
        (RUN, json.dumps({"schema": SCHEMA + 1, "results": []}), "update kernellab"),
        (JOURNAL, json.dumps({**HEAD, "schema": SCHEMA + 1}) + "\n", "update kernellab"),
        (JOURNAL, "nonsense\n" + json.dumps(HEAD) + "\n", "damaged at line 1"),
        (JOURNAL, json.dumps(PLAN) + "\n", "does not begin with a run"),
        (JOURNAL, "", "does not begin with a run"),
        (JOURNAL, "5\n", "damaged at line 1: it is not an event"),
        (JOURNAL, json.dumps({**HEAD, "settings": {}}) + "\n", "no settings"),
    ],
)
def test_damaged_and_newer_files_are_refused(tmp_path, name, content, message):
    (tmp_path / name).write_text(content)
    with pytest.raises(UserError, match=message):
        load(tmp_path)


def test_a_folder_without_a_run_is_refused(tmp_path):
    with pytest.raises(UserError, match="no record at"):
        load(tmp_path)


def test_removing_a_run_that_never_began_keeps_what_was_there(tmp_path):
    (tmp_path / "artifacts").mkdir()
    (tmp_path / "artifacts" / "mine.txt").write_text("mine")
    journal = Journal(tmp_path)
    journal.write(Event.parse(HEAD))
    journal.remove()
    assert [p.name for p in tmp_path.rglob("*")] == ["artifacts", "mine.txt"]
    journal = Journal(tmp_path / "new")
    journal.remove()
    assert not (tmp_path / "new").exists()


def test_one_process_at_a_time_writes_a_run_and_others_can_see_it(tmp_path):
    journal = begin(tmp_path / "run", {"targets": []}, 0, ["klab"])
    assert is_being_written(tmp_path / "run")
    with pytest.raises(UserError, match="is being written by another klab"):
        Journal(tmp_path / "run")
    journal.close()
    assert not is_being_written(tmp_path / "run")
    Journal(tmp_path / "run").close()


def test_a_run_does_not_begin_where_another_process_was_faster(tmp_path):
    begin(tmp_path / "run", {"targets": []}, 0, ["klab", "first"]).close()
    with pytest.raises(UserError, match="already holds a run"):
        begin(tmp_path / "run", {"targets": []}, 0, ["klab", "second"])
    assert load(tmp_path / "run")["command"] == ["klab", "first"]


def test_a_run_that_never_began_leaves_no_folder_of_its_own(tmp_path):
    for name, own in (("own", True), ("given", False)):
        (tmp_path / name).mkdir()
        begin(tmp_path / name, {"targets": []}, 0, ["klab"], own_folder=own).remove()
    assert [path.name for path in tmp_path.iterdir()] == ["given"]
