"""Rows become a sorted, nested table; a hostile file cannot make it grow without bound."""

import json
import time

from kernellab.traces import builder as module
from kernellab.traces.builder import TraceBuilder
from kernellab.traces.trace import NONE, Kind, Lane
from support.chrome_traces import SECONDS, event, many, read_text, text_of


def test_a_row_ends_with_the_row_around_it():
    builder = TraceBuilder("test")
    lane = builder.lane(Lane("p", "t"))
    for name, begin, duration in (("outer", 0, 100), ("inner", 50, 51), ("next", 100, 10)):
        builder.add(Kind.OPERATOR, builder.name(name), lane, begin, duration)
    assert builder.build().parent.tolist() == [NONE, 0, NONE]


def test_a_range_outlasts_the_call_that_opens_it():
    builder = TraceBuilder("test")
    lane = builder.lane(Lane("p", "t"))
    for kind, name, begin, end in (
        (Kind.PYTHON, "main", 0, 100),
        (Kind.PYTHON, "__enter__", 10, 20),
        (Kind.RANGE, "mine", 15, 85),
        (Kind.OPERATOR, "inside", 30, 40),
        (Kind.PYTHON, "__exit__", 80, 90),
        (Kind.PYTHON, "of __exit__", 86, 88),
        (Kind.OPERATOR, "after", 95, 96),
    ):
        builder.add(kind, builder.name(name), lane, begin, end - begin)
    trace = builder.build()
    around = {trace.name_of(row): trace.name_of(p) if p != NONE else "" for row, p in enumerate(trace.parent)}
    assert around == {
        "main": "",
        "__enter__": "main",
        "mine": "main",
        "inside": "mine",
        "__exit__": "mine",
        "of __exit__": "__exit__",
        "after": "main",
    }


def test_of_rows_with_equal_times_the_caller_is_the_outer_one():
    builder = TraceBuilder("test")
    lane = builder.lane(Lane("p", "t"))
    for kind in (Kind.CALL, Kind.OPERATOR, Kind.MODULE, Kind.PYTHON, Kind.RANGE):
        builder.add(kind, builder.name(kind.name), lane, 5, 10)
    trace = builder.build()
    assert [trace.name_of(row) for row in range(5)] == ["PYTHON", "MODULE", "RANGE", "OPERATOR", "CALL"]
    assert trace.parent.tolist() == [NONE, 0, 1, 2, 3]


def test_overlapping_ranges_are_nested_in_bounded_time(tmp_path):
    overlapping = [event("r", number, 10**6 + number, "user_annotation") for number in range(50_000)]
    began = time.monotonic()
    trace = read_text(tmp_path, text_of(overlapping))
    assert time.monotonic() - began < SECONDS
    assert len(trace) == 50_000


def test_a_time_far_from_all_others_is_dropped(tmp_path):
    trace = read_text(tmp_path, text_of([*many(9), event("far", 10**13, 1), event("long", 5, 10**13)]))
    assert len(trace) == 9
    assert trace.span_ns == 85_000
    assert "more than a month" in trace.notes[0]


def test_a_name_of_ten_megabytes_is_shortened(tmp_path):
    name = "<script>alert(1)</script>" * 400_000
    began = time.monotonic()
    trace = read_text(tmp_path, text_of([*many(2), event(name, 100, 1), *many(2)]))
    assert time.monotonic() - began < SECONDS
    assert len(trace) == 5
    assert max(map(len, trace.names)) < 11_000
    (long,) = [name for name in trace.names if name.startswith("<script>")]
    assert "10,000,000 characters" in long
    assert any("the end of a name" in note for note in trace.notes)


def test_control_characters_are_removed_from_names_and_details(tmp_path):
    trace = read_text(tmp_path, text_of([event("a\x1b[2J\ud800\u202eb", 1, 1, **{"Input type": ["\x1b[31m"]})]))
    assert trace.name_of(0).isprintable()
    trace.name_of(0).encode()
    assert "\x1b" not in json.dumps(list(trace.details), ensure_ascii=False)


def test_names_and_details_are_kept_up_to_a_limit(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_MAX_NAME_BYTES", 20_000)
    monkeypatch.setattr(module, "_MAX_DETAIL_TEXT", 2_000)
    trace = read_text(tmp_path, text_of(many(1000)))
    assert len(trace) == 1000
    assert len(trace.names) < 200
    assert len(trace.details) < 200
    assert sum("because there are too many different ones" in note for note in trace.notes) == 2


def test_threads_are_kept_up_to_a_limit(tmp_path):
    trace = read_text(tmp_path, text_of([event("a", 1, 1, where={"pid": 1, "tid": n}) for n in range(5000)]))
    assert len(trace.lanes) == 4096
    assert trace.notes


def test_rows_are_kept_up_to_a_limit(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_MAX_ROWS", 100)
    trace = read_text(tmp_path, text_of(many(1000)))
    assert len(trace) == 100
    assert any("Only the first 100 events" in note for note in trace.notes)
