"""The tables of docs/record.md agree with the declarations."""

import re

import pytest

from kernellab.record import tables
from kernellab.record.schema import SCHEMA
from support.klab import HERE

PAGE = (HERE.parent / "docs" / "record.md").read_text()


def test_the_tables_are_those_of_the_declarations():
    assert tables.write_tables(PAGE) == PAGE, "run python -m kernellab.record.tables docs/record.md"


def test_a_stale_table_is_rewritten():
    assert "| `impl` |" in PAGE
    stale = PAGE.replace("| `impl` |", "| `implementation` |")
    assert tables.write_tables(stale) == PAGE


def test_the_page_names_the_current_schema():
    assert f"`schema`, now {SCHEMA}." in PAGE


def test_every_document_that_a_table_refers_to_has_a_table():
    linked = set(re.findall(r"\]\(#(\w+)\)", PAGE))
    headings = {heading.lower() for heading in re.findall(r"^#+ (\w+)$", PAGE, flags=re.M)}
    assert linked
    assert linked <= headings


@pytest.mark.parametrize(
    ("declared", "name"),
    [
        (int | None, "integer or null"),
        (list[str], "list of string"),
        (dict[str, list[float]], "object of list of number"),
    ],
)
def test_types_are_named_in_the_words_of_json(declared, name):
    assert tables.type_name(declared) == name
