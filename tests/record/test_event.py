"""Events: declared once; an unknown event is refused when written and tolerated when read."""

import dataclasses
import json

import pytest

from kernellab.base.errors import UserError
from kernellab.base.message import DamagedMessage, UnknownMessage
from kernellab.record.event import Event
from kernellab.record.journal import JOURNAL, Journal
from kernellab.record.reading import load, read_journal
from kernellab.running.protocol import events as transient
from support.records import ENVIRONMENT, event

CASE = {"dims": {"N": 8}, "dtype": "float32", "options": {}, "layout": "contiguous", "device": "cpu"}
HEAD = {"schema": 3, "command": [], "seed": 0, "environment": ENVIRONMENT, "settings": {"targets": []}}


def test_an_event_comes_back_as_it_was_sent():
    sent = event("guard", op="f", case=CASE, impl="a", guard={"name": "g", "detail": "d"})
    assert Event.parse(json.loads(json.dumps(sent.to_json()))) == sent


def test_an_undeclared_event_is_an_error_when_written(tmp_path):
    with pytest.raises(UnknownMessage, match="no event is named 'gossip'"):
        event("gossip")
    with pytest.raises(TypeError, match="`waited` is declared transient"):
        Journal(tmp_path).write(transient.WaitEnded())


def test_an_event_of_a_newer_version_is_tolerated_when_read(tmp_path):
    lines = [
        {"event": "run", "t": 0.0, **HEAD},
        {"event": "gossip", "t": 0.1},
        {"event": "complete", "t": 0.2, "new": 1},
    ]
    (tmp_path / JOURNAL).write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert load(tmp_path)["complete"] is True
    assert [line.event is None for line in read_journal(tmp_path)] == [False, True, False]


def test_an_event_that_lacks_a_field_is_refused_with_its_line(tmp_path):
    lines = [{"event": "run", "t": 0.0, **HEAD}, {"event": "guard", "t": 0.1, "op": "f", "case": CASE, "impl": "a"}]
    (tmp_path / JOURNAL).write_text("".join(json.dumps(line) + "\n" for line in lines))
    with pytest.raises(UserError, match=r"damaged at line 2: `guard` has no `guard`"):
        load(tmp_path)


@pytest.mark.parametrize("name", ["profiled", "scaled", "counted"])
def test_events_of_klab_profile_are_declared_and_stored(name):
    assert Event.declared[name].stored


def test_no_field_of_an_event_is_of_type_any():
    for name, declared in Event.declared.items():
        for field in dataclasses.fields(declared):
            assert "Any" not in str(field.type), f"{name}.{field.name}"


def test_a_field_of_the_wrong_type_is_named():
    with pytest.raises(DamagedMessage, match="`void`: `op` is 3, not a string"):
        event("void", op=3)
