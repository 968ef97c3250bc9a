"""Whether a JSON document has the shape that a declaration describes."""

from typing import NotRequired, TypedDict

import pytest

from kernellab.base.json import JsonValue
from kernellab.base.shape import difference


class Inner(TypedDict):
    size: int


class Outer(TypedDict):
    name: str
    parts: list[Inner]
    rates: dict[str, float]
    note: NotRequired[str | None]
    anything: NotRequired[JsonValue]


RIGHT = {"name": "a", "parts": [{"size": 1}], "rates": {"copy": 1}}


@pytest.mark.parametrize(
    "document",
    [RIGHT, {**RIGHT, "note": None}, {**RIGHT, "unknown": 1}, {**RIGHT, "anything": [{"deep": [1, None]}]}],
)
def test_a_document_of_the_declared_shape_is_accepted(document):
    assert difference(document, Outer) is None


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        ({**RIGHT, "name": 3}, "name is 3, not a string"),
        ({**RIGHT, "parts": [{"size": 1}, {}]}, "parts[1] has no `size`"),
        ({**RIGHT, "parts": {}}, "parts is an object, not a list"),
        ({**RIGHT, "rates": {"copy": "fast"}}, "rates.copy is 'fast', not a number"),
        ({**RIGHT, "rates": {"copy": True}}, "rates.copy is True, not a number"),
        ({**RIGHT, "note": 5}, "note is 5, not a string"),
        ({"name": "a", "parts": []}, "it has no `rates`"),
        ([], " is a list, not an object"),
    ],
)
def test_the_first_difference_is_named_with_its_place(document, problem):
    assert difference(document, Outer) == problem
