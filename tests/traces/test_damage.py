"""Damaged and hostile traces: what can be read is read, what is missing is told, and nothing hangs or breaks."""

import contextlib
import gzip
import json
import re
import time
import tracemalloc

import pytest

from kernellab import traces
from kernellab.base.errors import UserError
from kernellab.base.text import shown
from kernellab.traces import chrome_events as events_module
from kernellab.traces import kineto
from support.chrome_traces import (
    ON_STREAM,
    SECONDS,
    a_step,
    event,
    fuzz,
    many,
    named,
    text_of,
    usable,
    written,
)


def read_text(tmp_path, text):
    path = tmp_path / "t.json"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return traces.read(path)


def test_a_file_cut_anywhere_gives_the_events_before_the_cut(tmp_path):
    text = text_of(many(12))
    ends = [match.end() for match in re.finditer(r"\n    \}(?=,?\n)", text)]
    assert len(ends) == 12
    for cut in range(1, len(text) - 1, 7):
        whole = sum(end <= cut for end in ends)
        try:
            trace = read_text(tmp_path, text[:cut])
        except UserError as refused:
            words = refused.message
            assert not whole, words
            assert "breaks off" in words, cut
            continue
        assert len(trace) == whole
        assert any("breaks off" in note for note in trace.notes)


def test_broken_gzip_gives_what_lies_before_the_break(tmp_path):
    packed = bytearray(gzip.compress(text_of(many(4000)).encode()))
    middle = len(packed) // 2
    path = tmp_path / "t.json.gz"
    for damaged, words in (
        (packed[:middle], "breaks off"),
        (packed[:middle] + b"\xff" * 40 + packed[middle + 40 :], "packing is broken"),
        (packed[:-8] + b"\0" * 8, "packing is broken"),
    ):
        path.write_bytes(bytes(damaged))
        trace = traces.read(path)
        assert len(trace) > 1500
        assert any(words in note for note in trace.notes), trace.notes
        assert [trace.name_of(row) for row in range(1500)] == [f"op {number}" for number in range(1500)]


def test_an_event_that_is_no_json_is_left_out_and_its_neighbours_are_not(tmp_path):
    for broken in (
        '{"ph": "X", "cat": "cpu_op", "name": "C:\\Users", "ts": 1, "dur": 1, "pid": 1, "tid": 1}',
        '{"ph": "X", "name": "a"b", "args": {"x": [{"name": "part"},{"name": "part"}], "y": 1}}',
        '{"ph": "X", "name": "a, "ts": 1}',
        '{"ph": "X", "ts": ' + "9" * 5000 + "}",
        '{"ph": "X", "args": ' + "[" * 100_000 + "}",
        "\0\0\0\0\0\0",
        '{"ph": "X", "ts": }',
    ):
        before, after = (json.dumps(one)[1:-1] for one in (many(3), many(6)[3:]))
        trace = read_text(tmp_path, f'{{"traceEvents": [{before}, {broken}, {after}]}}')
        assert [trace.name_of(row) for row in range(len(trace))] == [f"op {number}" for number in range(6)], broken[:60]
        assert len([note for note in trace.notes if "cannot be read as JSON, in 1 place," in note]) == 1


def test_a_broken_head_does_not_hide_the_events(tmp_path):
    trace = read_text(tmp_path, '{"deviceProperties": [{"name": oops}], "x": 1, ' + text_of(many(5))[1:])
    assert len(trace) == 5
    assert trace.notes


def test_events_with_odd_fields_are_left_out_and_counted(tmp_path):
    nan, huge = float("nan"), 1e300
    odd = [
        7, None, "X", [], {}, {"ph": "X"},
        event(["a"], 1, 1), event("a", "soon", 1), event("a", None, 1), event("a", nan, 1), event("a", huge, 1),
        event("a", -5, 1), event("a", 1, nan), event("a", 1, huge), event("a", 10**30, 1), event("a", 1, 1, cat={}),
        event("a", 1, 1, where={"pid": {}, "tid": []}), event("k", 1, 1, "kernel", {"pid": "x", "tid": "y"}),
        {**event("a", 1, 1), "args": [1]}, event("a", 1, 1, correlation="x"),
        {"ph": "i", "name": "[memory]", "ts": 1, "args": {"Bytes": "many", "Device Type": 0}},
        {"ph": "i", "name": "[memory]", "ts": nan, "args": {"Bytes": 1, "Device Type": 0}},
        {"ph": "M", "name": "thread_name", "args": 5},
    ]  # fmt: skip
    trace = read_text(tmp_path, text_of([*odd, *many(3)]))
    assert [trace.name_of(row) for row in range(len(trace))] == ["op 0", "op 1", "op 2"]
    left_out = [re.search(r"\(([\d,]+) ×\)", note) for note in trace.notes]
    assert sum(int(match[1]) for match in left_out) == len(odd)


def test_details_that_are_not_what_they_should_be_do_not_reach_the_table(tmp_path):
    trace = read_text(
        tmp_path,
        text_of(
            [
                event("k", 1, 1, "kernel", ON_STREAM, grid="4", block=[1, 2], **{"registers per thread": -1}),
                event("m", 3, 1, "gpu_memcpy", ON_STREAM, bytes=nan_text()),
                event("o", 1, 1, **{"Input Dims": {"a": 1}, "Input type": ["float"]}),
            ]
        ),
    )
    assert trace.details_of(named(trace, "k")) == {}
    assert trace.details_of(named(trace, "m")) == {}
    assert trace.details_of(named(trace, "o")) == {"types": ["float"]}
    assert any("a detail that is not what it should be (3 ×)" in note for note in trace.notes)


def nan_text():
    return float("nan")


def test_an_event_that_ends_before_it_begins_has_no_length(tmp_path):
    trace = read_text(tmp_path, text_of([event("a", 10, -3), event("b", 11, 1)]))
    assert trace.duration.tolist() == [0, 1000]
    assert "ends before it begins" in trace.notes[0]


def test_a_time_far_from_all_others_is_left_out(tmp_path):
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


def test_an_event_longer_than_any_may_be_is_passed_over(tmp_path, monkeypatch):
    monkeypatch.setattr(events_module, "_LONGEST", 1 << 18)
    trace = read_text(tmp_path, text_of([*many(2), event("x" * 2_000_000, 100, 1), *many(2)]))
    assert len(trace) == 4
    assert any("cannot be read" in note for note in trace.notes)


def test_what_a_terminal_obeys_does_not_stay_in_names(tmp_path):
    trace = read_text(tmp_path, text_of([event("a\x1b[2J\ud800\u202eb", 1, 1, **{"Input type": ["\x1b[31m"]})]))
    assert trace.name_of(0).isprintable()
    trace.name_of(0).encode()
    assert "\x1b" not in json.dumps(trace.details, ensure_ascii=False)


@pytest.mark.parametrize(
    ("text", "read"),
    [("a\tb\u00a0\u2028", "a b  "), ("a\x1b\u202e\ud800", "a" + 3 * "\ufffd"), ("é…🙂", "é…🙂"), ("abcdef", "abcd…")],
)
def test_texts_are_shown_as_one_line_of_printable_characters(text, read):
    assert shown(text, 5) == read


def test_names_without_end_do_not_take_memory_without_end(tmp_path, monkeypatch):
    monkeypatch.setattr("kernellab.traces.trace._NAMES", 20_000)
    monkeypatch.setattr("kernellab.traces.trace._DETAILS", 2_000)
    trace = read_text(tmp_path, text_of(many(1000)))
    assert len(trace) == 1000
    assert len(trace.names) < 200
    assert len(trace.details) < 200
    assert sum("there being too many different ones" in note for note in trace.notes) == 2


def test_what_is_no_name_of_a_thread_and_keys_without_end_are_not_kept(tmp_path):
    long = [{"ph": "M", "name": "thread_name", "pid": 1, "tid": "y" * 5000, "args": {"name": "n"}}]
    long += [event("a", 1, 1, where={"pid": 1, "tid": "y" * 5000})]
    trace = read_text(tmp_path, text_of([*long, *many(2)], **{f"key {number}": 1 for number in range(5000)}))
    assert len(trace) == 2
    assert len(trace.metadata) <= 1001
    assert "y" * 300 not in repr(trace)


def test_threads_without_end_are_left_out(tmp_path):
    trace = read_text(tmp_path, text_of([event("a", 1, 1, where={"pid": 1, "tid": n}) for n in range(5000)]))
    assert len(trace.lanes) == 4096
    assert trace.notes


def test_rows_without_end_stop(tmp_path, monkeypatch):
    monkeypatch.setattr("kernellab.traces.trace._MOST_ROWS", 100)
    trace = read_text(tmp_path, text_of(many(1000)))
    assert len(trace) == 100
    assert any("Only the first 100 events" in note for note in trace.notes)


def test_a_file_of_which_every_second_event_is_no_json_is_read_to_its_end(tmp_path):
    events = [json.dumps(event("C:\\Users", number, 1)) for number in range(4000)]
    events[1::2] = [text.replace("\\\\", "\\") for text in events[1::2]]
    began = time.monotonic()
    trace = read_text(tmp_path, '{"traceEvents": [' + ",\n".join(events) + "]}")
    assert time.monotonic() - began < SECONDS
    assert len(trace) == 2000
    assert "in 2,000 places, the first at character " in trace.notes[0]


def test_packed_blanks_without_end_stop(tmp_path, monkeypatch):
    monkeypatch.setattr(events_module, "_MOST_BLANK", 1 << 20)
    path = tmp_path / "t.json.gz"
    path.write_bytes(gzip.compress(text_of(many(5)).encode()[:-2] + b" " * (30 << 20)))
    read = []
    pieces = kineto.pieces

    def counted(*given):
        for piece in pieces(*given):
            read.append(len(piece))
            yield piece

    monkeypatch.setattr(kineto, "pieces", counted)
    assert len(traces.read(path)) == 5
    assert sum(read) < 3 << 20


def test_packed_text_without_end_stops(tmp_path, monkeypatch):
    monkeypatch.setattr("kernellab.traces.text_chunks._MOST", 1 << 20)
    path = tmp_path / "t.json.gz"
    path.write_bytes(gzip.compress(text_of(many(5)).encode()[:-2] + b" " * (30 << 20)))
    tracemalloc.start()
    trace = traces.read(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(trace) == 5
    assert any("Only the first" in note for note in trace.notes)
    assert peak < 10 << 20


def test_memory_does_not_grow_with_the_file(tmp_path):
    path = written(tmp_path / "t.json", [event("a", number, 1, unread="x" * 2000) for number in range(10_000)])
    tracemalloc.start()
    traces.read(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < path.stat().st_size / 3


@pytest.mark.parametrize(
    "text",
    [
        '{"traceEvents": [' + '},{"a":"' * 200_000,
        '{"traceEvents": [' + '{"ph":"X","name":"' + '},{"ph":1' * 200_000,
        '{"traceEvents": [' + "[" * 1_000_000,
        '{"traceEvents": [{"ph": x}' + '},{"ph": [' * 200_000,
        '{"a":' * 300_000,
        "[" + '"' * 200_000,
        "[" + "," * 3_000_000,
        '{"traceEvents": [' + "}" * 1_000_000,
        '{"traceEvents": [' + '{"ph":"X","cat":"user_annotation","name":"r","ts":1,"dur":2,"pid":1,"tid":1},' * 20_000,
    ],
    ids=range(9),
)
def test_text_made_to_take_for_ever_does_not(tmp_path, text, monkeypatch):
    monkeypatch.setattr(events_module, "_PATIENCE", 1 << 28)
    began = time.monotonic()
    with contextlib.suppress(UserError):
        usable(read_text(tmp_path, text))
    assert time.monotonic() - began < SECONDS


def test_ranges_that_all_overlap_do_not_take_for_ever(tmp_path):
    overlapping = [event("r", number, 10**6 + number, "user_annotation") for number in range(50_000)]
    began = time.monotonic()
    trace = read_text(tmp_path, text_of(overlapping))
    assert time.monotonic() - began < SECONDS
    assert len(trace) == 50_000


def test_damaged_at_random_traces_are_read_or_refused(tmp_path):
    assert fuzz(1, 400, tmp_path) > 200


def test_the_pieces_a_file_comes_in_do_not_matter(tmp_path):
    text = text_of([*a_step(), *many(4)])
    whole = list(events_module.Events(iter([text])))
    for size in (1, 2, 3, 7, 64):
        parts = [text[at : at + size] for at in range(0, len(text), size)]
        events = events_module.Events(iter(parts))
        assert list(events) == whole
        assert events.notes == []
    assert events.top == {"schemaVersion": 1}
    assert kineto.read(written(tmp_path / "t.json", a_step())).notes == []
