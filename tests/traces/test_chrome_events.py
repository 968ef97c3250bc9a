"""The events of a Chrome trace are read one by one, also from damaged and hostile text."""

import contextlib
import json
import re
import time

import pytest

from kernellab import traces
from kernellab.base.errors import UserError
from kernellab.traces import chrome_events
from kernellab.traces.chrome_events import ChromeEvents
from support.chrome_traces import SECONDS, a_step, assert_usable, event, many, read_text, text_of


def test_a_bare_list_is_read_with_or_without_its_closing_bracket(tmp_path):
    for end in ("]", "", ","):
        path = tmp_path / "t.json"
        path.write_text(json.dumps([event("a", 1, 2), event("b", 2, 1)])[:-1] + end)
        trace = traces.read(path)
        assert len(trace) == 2
        assert not trace.notes


def test_events_do_not_depend_on_how_the_text_is_chunked():
    text = text_of([*a_step(), *many(4)])
    expected = list(ChromeEvents(iter([text])))
    for size in (1, 2, 3, 7, 64):
        parts = [text[at : at + size] for at in range(0, len(text), size)]
        events = ChromeEvents(iter(parts))
        assert list(events) == expected
        assert events.notes == []
    assert events.metadata == {"schemaVersion": 1}


def test_a_truncated_file_gives_the_events_before_the_cut(tmp_path):
    text = text_of(many(12))
    ends = [match.end() for match in re.finditer(r"\n    \}(?=,?\n)", text)]
    assert len(ends) == 12
    for cut in range(1, len(text) - 1, 7):
        complete = sum(end <= cut for end in ends)
        try:
            trace = read_text(tmp_path, text[:cut])
        except UserError as error:
            message = error.message
            assert not complete, message
            assert "truncated" in message, cut
            continue
        assert len(trace) == complete
        assert any("truncated" in note for note in trace.notes)


def test_an_event_that_is_not_json_is_dropped_and_its_neighbours_are_kept(tmp_path):
    for broken in (
        '{"ph": "X", "cat": "cpu_op", "name": "C:\\Users", "ts": 1, "dur": 1, "pid": 1, "tid": 1}',
        '{"ph": "X", "name": "a"b", "args": {"x": [{"name": "part"},{"name": "part"}], "y": 1}}',
        '{"ph": "X", "name": "a, "ts": 1}',
        '{"ph": "X", "ts": ' + "9" * 5000 + "}",
        '{"ph": "X", "args": ' + "[" * 100_000 + "}",
        "\0\0\0\0\0\0",
        '{"ph": "X", "ts": }',
    ):
        before, after = (json.dumps(events)[1:-1] for events in (many(3), many(6)[3:]))
        trace = read_text(tmp_path, f'{{"traceEvents": [{before}, {broken}, {after}]}}')
        assert [trace.name_of(row) for row in range(len(trace))] == [f"op {number}" for number in range(6)], broken[:60]
        assert len([note for note in trace.notes if "not valid JSON, in 1 place," in note]) == 1


def test_damage_before_the_list_does_not_hide_the_events(tmp_path):
    trace = read_text(tmp_path, '{"deviceProperties": [{"name": oops}], "x": 1, ' + text_of(many(5))[1:])
    assert len(trace) == 5
    assert trace.notes


def test_a_file_with_every_second_event_damaged_is_read_to_its_end(tmp_path):
    events = [json.dumps(event("C:\\Users", number, 1)) for number in range(4000)]
    events[1::2] = [text.replace("\\\\", "\\") for text in events[1::2]]
    began = time.monotonic()
    trace = read_text(tmp_path, '{"traceEvents": [' + ",\n".join(events) + "]}")
    assert time.monotonic() - began < SECONDS
    assert len(trace) == 2000
    assert "in 2,000 places, the first at character " in trace.notes[0]


def test_an_event_beyond_the_size_limit_is_skipped(tmp_path, monkeypatch):
    monkeypatch.setattr(chrome_events, "_MAX_VALUE", 1 << 18)
    trace = read_text(tmp_path, text_of([*many(2), event("x" * 2_000_000, 100, 1), *many(2)]))
    assert len(trace) == 4
    assert any("not valid JSON" in note for note in trace.notes)


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
def test_text_made_to_be_slow_is_read_in_bounded_time(tmp_path, text, monkeypatch):
    monkeypatch.setattr(chrome_events, "_MAX_SEARCHED", 1 << 28)
    began = time.monotonic()
    with contextlib.suppress(UserError):
        assert_usable(read_text(tmp_path, text))
    assert time.monotonic() - began < SECONDS
