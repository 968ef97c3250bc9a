"""Splitting a sweep into cells, and merging their runs."""

import json
from copy import deepcopy

import pytest

from kernellab.base.errors import UserError
from kernellab.record.journal import Journal
from kernellab.record.merge import merge
from kernellab.record.reading import events_of, load, read_journal
from kernellab.record.verdict import derive
from kernellab.reporting.charts.provenance import provenance
from support.records import event

GPU = {"name": "H", "uuid": "GPU-1", "driver": "1.0", "memory_bytes": 1, "max_sm_mhz": 1, "max_memory_mhz": 1}
ENVIRONMENT = {"python": "3.11.2", "packages": {"torch": "2.13"}, "gpus": [GPU], "cpu": {"name": "C"}, "commit": "c0"}
HEADER = {"pass": "forward", "timer": "clock", "cache": "cold"}


def case(n):
    return {"dims": {"N": n}, "dtype": "float32", "options": {}, "layout": "contiguous", "device": "cpu"}


def run(folder, sizes, *, environment=None, seed=0, source="s", times=1.0, complete=True, cells=None, done=None):
    """A run's journal, as a run of one implementation at these sizes would leave it."""
    environment = environment or ENVIRONMENT
    journal = Journal(folder)
    settings = {"targets": ["f"], "stages": ["check", "time"], "request": {}, "cells": cells}
    journal.write(
        event("run", schema=1, command=["klab"], seed=seed, environment=environment, settings=settings, began="b")
    )
    name = f"H {environment['gpus'][0]['uuid']} driver {environment['gpus'][0]['driver']}"
    journal.write(
        event("machine", machine={"device": "cuda:0", "name": name, "key": name, "cuda": "13", "ceilings": None})
    )
    plan = [{"op": "f", "case": case(n), "impls": {"torch": "torch"}} for n in sizes]
    journal.write(event("plan", groups=plan, sources={"f": source}))
    for n in sizes if done is None else done:
        journal.write(event("check", op="f", case=case(n), impl="torch", check={"status": "ok", "reason": None}))
        for number in range(9):
            journal.write(event("round", op="f", case=case(n), **HEADER, round=number, samples_us={"torch": times * n}))
        journal.write(event("timed", op="f", case=case(n), impls=["torch"]))
    if complete:
        journal.write(event("complete"))
    journal.save()
    journal.close()
    return folder


def sizes_of(record):
    return [r["case"]["dims"]["N"] for r in record["results"]]


def test_cells_come_back_in_the_order_of_the_unsplit_run(tmp_path):
    odd = run(tmp_path / "a", [1, 3, 5], cells=[1, 2])
    even = run(tmp_path / "b", [2, 4], cells=[2, 2])
    merged = merge([even, odd], tmp_path / "both", ["klab", "merge"])
    assert sizes_of(merged) == [1, 2, 3, 4, 5]
    assert merged["complete"] is True
    assert merged["began"] == "b"
    assert provenance(merged).endswith("joined from 2 runs")
    assert [m["folder"] for m in merged["merged_from"]] == [str(even), str(odd)]
    whole = load(run(tmp_path / "whole", [1, 2, 3, 4, 5]))
    assert merged["results"] == whole["results"]
    assert load(tmp_path / "both") == load(tmp_path / "both" / "run.json") == merged
    assert derive(merged)["results"][4]["derived"]["time"]["median_us"] == 5.0


def test_another_board_of_the_same_kind_is_fine(tmp_path):
    other = deepcopy(ENVIRONMENT)
    other["gpus"][0]["uuid"] = "GPU-2"
    other["python"] = "3.11.9"
    merged = merge([run(tmp_path / "a", [1]), run(tmp_path / "b", [2], environment=other)], tmp_path / "c", [])
    assert [m["machine"] for m in merged["merged_from"]] == ["H GPU-1 driver 1.0", "H GPU-2 driver 1.0"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda e: e["gpus"][0].update(driver="2.0"), r"driver \(1.0, 2.0\)"),
        (lambda e: e["gpus"][0].update(name="I"), r"device \(H, I\)"),
        (lambda e: e["packages"].update(torch="2.14"), r"torch \(2.13, 2.14\)"),
        (lambda e: e.update(python="3.12.0"), r"python \(3.11, 3.12\)"),
    ],
)
def test_another_class_of_machine_is_refused_and_the_difference_named(tmp_path, change, message):
    other = deepcopy(ENVIRONMENT)
    change(other)
    with pytest.raises(UserError, match=message):
        merge([run(tmp_path / "a", [1]), run(tmp_path / "b", [2], environment=other)], tmp_path / "c", [])
    assert not (tmp_path / "c").exists()


@pytest.mark.parametrize(("more", "message"), [({"seed": 1}, "seed"), ({"source": "t"}, "the source of f")])
def test_other_inputs_or_other_code_are_refused(tmp_path, more, message):
    with pytest.raises(UserError, match=message):
        merge([run(tmp_path / "a", [1]), run(tmp_path / "b", [2], **more)], tmp_path / "c", [])


def test_overlaps_are_refused_unless_identical(tmp_path):
    first, same, other = (run(tmp_path / name, [1, 2], times=t) for name, t in (("a", 1), ("b", 1), ("c", 3)))
    merged = merge([first, same], tmp_path / "fine", [])
    assert merged["results"] == load(first)["results"]
    with pytest.raises(UserError, match="both measured f at"):
        merge([first, other], tmp_path / "not", [])


def test_a_group_that_one_run_did_not_reach_is_taken_from_another_run(tmp_path):
    interrupted = run(tmp_path / "a", [1, 2, 3], done=[1], complete=False)
    rest = run(tmp_path / "b", [2, 3])
    merged = merge([interrupted, rest], tmp_path / "c", [])
    assert sizes_of(merged) == [1, 2, 3]
    assert all(r["check"] for r in merged["results"])
    assert merged["complete"] is False


def test_a_voided_op_stays_void_in_its_run_and_counts_in_others(tmp_path):
    first, second = run(tmp_path / "a", [1]), run(tmp_path / "b", [2], times=7, complete=False)
    journal = Journal(second, events_of(read_journal(second)))
    journal.write(event("void", op="f"))
    journal.write(event("plan", groups=[{"op": "f", "case": case(4), "impls": {"torch": "torch"}}], sources={"f": "s"}))
    journal.close()
    assert sizes_of(merge([first, second], tmp_path / "c", [])) == [1, 4]


def with_events(folder, *events):
    """The same run with more events."""
    journal = Journal(folder, events_of(read_journal(folder)))
    for name, fields in events:
        journal.write(event(name, op="f", impl="torch", **fields))
    journal.save()
    journal.close()
    return folder


def trial(label, status, number=0):
    entry = {"kind": "sizes", "case": case(3), "layouts": {}, "values": {}, "of": "forward", "label": label}
    return "trial", {"number": number, "trial": entry, "interpreter": False, "status": status, "reason": None}


def search(drawn, **more):
    return "search", {"drawn": drawn, "outside": 0, "seconds": 1.0, **more}


def sanitized(cases, findings=(), unfinished=None, tool="memcheck"):
    fields = {"planned": 2, "cases": cases, "raised": {}, "errors": len(findings), "complaints": [], "exit": 0}
    fields |= {"unfinished": unfinished, "seconds": 1.0, "log": f"artifacts/sanitize-f-torch-{tool}.txt"}
    return "sanitized", {"tool": tool, "findings": list(findings), **fields}


def test_trials_of_only_one_run_are_kept_unchanged(tmp_path):
    events = (trial("a", "ok"), trial("b", "wrong", 1), search(7), sanitized(2))
    first, second = with_events(run(tmp_path / "a", [1]), *events), run(tmp_path / "b", [2])
    for order in ([first, second], [second, first]):
        merged = merge(order, tmp_path / str(order.index(first)), [])
        for part in ("trials", "searches", "sanitized"):
            assert merged[part] == load(first)[part] != []
    (battery,) = derive(merged)["batteries"]
    assert (battery["status"], battery["tried"], battery["search"]["drawn"]) == ("wrong", 2, 7)


def test_of_trials_that_several_runs_made_the_most_informative_is_kept(tmp_path):
    error = {"kind": "k", "severity": "error", "own": True, "kernel": "", "file": "", "line": 0, "bytes": 0}
    error |= {"detail": "", "count": 1, "trial": ""}
    script = {"script": ["x"], "shrinking": 1, "file": "artifacts/reproduce-f-torch.py"}
    first = with_events(
        run(tmp_path / "a", [1]),
        *(trial(label, status) for label, status in zip("abcd", ("ok", "wrong", "unknown", "ok"), strict=True)),
        search(99),
        sanitized(2),
        sanitized(1, unfinished="timeout", tool="racecheck"),
    )
    second = with_events(
        run(tmp_path / "b", [2]),
        *(trial(label, status) for label, status in zip("abce", ("ok", "ok", "ok", "crashed"), strict=True)),
        search(5, **script),
        sanitized(2, [error]),
        sanitized(2, tool="racecheck"),
    )
    for folder in (first, second):
        for file in ("sanitize-f-torch-memcheck.txt", "reproduce-f-torch.py"):
            (folder / "artifacts" / file).write_text(folder.name)
    merged = merge([first, second], tmp_path / "c", [])
    statuses = {t["trial"]["label"]: t["status"] for t in merged["trials"]}
    assert statuses == {"a": "ok", "b": "wrong", "c": "ok", "d": "ok", "e": "crashed"}
    assert len(merged["trials"]) == len(statuses)
    assert [s["script"] for s in merged["searches"]] == [["x"]]
    assert [(s["tool"], len(s["findings"]), s["cases"]) for s in merged["sanitized"]] == [
        ("memcheck", 1, 2),
        ("racecheck", 0, 2),
    ]
    for name in (merged["searches"][0]["file"], merged["sanitized"][0]["log"]):
        assert (tmp_path / "c" / name).read_text() == "b"


def test_a_file_outside_the_artifacts_is_not_copied(tmp_path):
    (tmp_path / "secret.txt").write_text("s")
    first = with_events(run(tmp_path / "a", [1]), search(1, file="../secret.txt"))
    merge([first, run(tmp_path / "b", [2])], tmp_path / "deep" / "c", [])
    assert list((tmp_path / "deep").rglob("secret.txt")) == []


def test_an_existing_run_is_not_overwritten(tmp_path):
    first, second = run(tmp_path / "a", [1]), run(tmp_path / "b", [2])
    with pytest.raises(UserError, match="already holds a run"):
        merge([first, second], first, [])


def test_two_cells_of_a_real_run_make_the_unsplit_plan(klab, tmp_path):
    command = ("check", "square", "--impl", "torch,manual", "--shape", "4x8", "--N", "8:40:8", "--device=cpu", "--json")
    parts = [klab(*command, "--cells", f"{i}/2", "--out", f"part{i}").record for i in (1, 2)]
    assert [sizes_of(part)[::2] for part in parts] == [[8, 24, 40], [16, 32]]
    seen = klab("merge", "part1", "part2", "--out", "both")
    assert (seen.code, seen.out) == (0, "both: 10 results of 2 runs\n")
    merged, whole = load(tmp_path / "both"), klab(*command).record
    assert [[r["impl"], r["case"]] for r in merged["results"]] == [[r["impl"], r["case"]] for r in whole["results"]]
    refused = klab("check", "--resume", "both")
    assert (refused.code, "merged from other runs" in refused.err) == (2, True)
    settings = json.loads((tmp_path / "part2" / "journal.jsonl").read_text().splitlines()[0])["settings"]
    assert settings["cells"] == [2, 2]


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["check", "square", "--cells", "3/2"], "cannot read --cells '3/2'"),
        (["check", "square", "--cells", "two"], "cannot read --cells 'two'"),
        (["check", "square", "--shape", "8", "--cells", "2/2", "--device", "cpu"], "--cells 2/2 is empty"),
        (["merge", "one", "--out", "x"], "fewer than two runs"),
        (["merge", "one", "two"], "--out DIR names it"),
        (["merge", "one", "two", "--out", "x"], "no run at one"),
    ],
)
def test_bad_requests_are_one_sentence(klab, args, message):
    seen = klab(*args)
    assert (seen.code, seen.out) == (2, "")
    assert message in seen.err
