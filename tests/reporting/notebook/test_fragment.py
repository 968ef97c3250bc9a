"""HTML as a console writes it: tables, paragraphs, nothing of a stranger's markup, no colours."""

import re

import pytest
from rich.text import Text

from kernellab.reporting.notebook.fragment import FragmentConsole
from kernellab.reporting.text.table import Column, Row, Table, print_table
from support.hostile_names import HOSTILE_NAMES


def html(show):
    out = FragmentConsole()
    show(out)
    return out.html()


def test_a_table_is_a_table_with_its_sides_and_bold_rows():
    table = Table([Column("impl", "left"), Column("time")], [Row(["a", "1 µs"], "bold"), Row(["b", Text("2 µs")])])
    text = html(lambda out: print_table(table, out))
    assert '<th class="l">impl</th><th class="r">time</th>' in text
    assert '<td class="l"><strong>a</strong></td>' in text.replace("'", '"')
    assert "2 µs</td>" in text


def test_rows_without_a_header_that_are_printed_one_by_one_are_one_table():
    def show(out):
        for name in ("a", "b"):
            print_table(Table([Column("", "left"), Column("", "left")], [Row([name, "x"])], header=False), out)
        out.print(Text("between"))
        print_table(Table([Column("", "left"), Column("", "left")], [Row(["c", "x"])], header=False), out)

    assert html(show).count("<table") == 2


def test_rows_that_are_not_shown_are_counted():
    table = Table([Column("impl")], [Row(["a"])], total=5)
    assert "… and 4 more" in html(lambda out: print_table(table, out))


@pytest.mark.parametrize("name", HOSTILE_NAMES[:4])
def test_texts_are_escaped_and_printable(name):
    def show(out):
        print_table(Table([Column(name)], [Row([name]), Row([Text(name, style="bold")])]), out)
        out.print(Text(name), style="bold")
        out.print(name)

    text = html(show)
    body = text.split("</style>")[1]
    assert set(re.findall(r"<(\w+)", body)) <= {"div", "table", "thead", "tbody", "tr", "th", "td", "strong", "p", "br"}
    assert all(c.isprintable() or c == "\n" for c in body)


def test_no_colour_but_the_pages_own():
    text = html(lambda out: out.print(Text("careful", style="yellow")))
    assert "careful" in text
    assert not re.search(r"#[0-9a-f]{3}|color: (?!inherit)", text)
