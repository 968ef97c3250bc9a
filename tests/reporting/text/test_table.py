"""Tables fit the terminal: texts are wrapped, then cut, then columns are left out and named."""

import io

import pytest
from rich.console import Console
from rich.text import Text

from kernellab.reporting.text.table import Column, Row, Table, print_table, split_columns

TABLE = Table(
    [
        Column("impl", "left", cut_to=8),
        Column("time"),
        Column("spread", drop=1),
        Column("error", drop=2),
        Column("meaning", "left", wrap_to=12),
    ],
    [
        Row(["triton-with-a-long-name", "12.3 µs", "±0.1 %", "0.5", "everything between two events"], "bold"),
        Row(["b", "1 µs", "", "1.5", Text("nothing", style="red")]),
    ],
)


def lines(width, table=TABLE, **more):
    return [line.plain for line in table.lines(width, **more)]


def test_a_table_is_as_wide_as_it_needs_where_there_is_room():
    assert lines(None) == lines(200) == [
        " impl                        time  spread  error  meaning",
        " triton-with-a-long-name  12.3 µs  ±0.1 %    0.5  everything between two events",
        " b                           1 µs            1.5  nothing",
    ]  # fmt: skip


@pytest.mark.parametrize("width", [90, 80, 70, 60, 55, 45, 40, 38])
def test_no_line_is_wider_than_the_terminal(width):
    assert max(map(len, lines(width))) <= width
    assert "12.3 µs" in "".join(lines(width)), "figures are never cut"


def test_texts_are_wrapped_before_any_is_cut():
    assert lines(65)[1:4] == [
        " triton-with-a-long-name  12.3 µs  ±0.1 %    0.5  everything",
        "                                                  between two",
        "                                                  events",
    ]


def test_names_are_cut_before_columns_are_left_out():
    assert any("triton-with-…" in line for line in lines(52))
    assert not any("wider" in line for line in lines(52))


def test_columns_are_left_out_in_their_order_and_named():
    assert lines(45)[-1] == " A wider terminal shows: error"
    assert lines(38)[-1] == " A wider terminal shows: spread, error"
    assert lines(45)[0].split() == ["impl", "time", "spread", "meaning"]


def test_rows_that_are_not_shown_are_counted():
    assert lines(None, Table([Column("a")], [Row(["1"])], total=5))[-1] == " … and 4 more"
    assert not any("more" in line for line in lines(None, Table([Column("a")], [Row(["1"])], total=1)))


def test_a_pipe_gets_every_column_in_full():
    out = Console(file=io.StringIO(), width=45)
    print_table(TABLE, out)
    text = out.file.getvalue()
    assert all(column.title.split()[0] in text for column in TABLE.columns)
    assert "triton-with-a-long-name" in text
    assert "…" not in text


def test_a_text_cannot_control_the_terminal():
    assert lines(None, Table([Column("name")], [Row(["\x1b[2Jgone"])]))[1] == " \ufffd[2Jgone"


def test_styles_are_those_of_rows_columns_and_cells():
    table = Table([Column("a", style="cyan"), Column("b")], [Row(["1", Text("2", style="red")], "bold")])
    _, row = table.lines(None)
    assert row.style == "bold"
    assert {str(span.style) for span in row.spans} == {"cyan", "red"}


def test_columns_that_do_not_fit_go_into_further_tables_with_the_first_column_again():
    table = Table([Column("N"), *(Column(f"impl-number-{n}") for n in range(5))], [Row(list("123456"))])
    parts = split_columns(table, 40)
    assert [[column.title[-1] for column in part.columns] for part in parts] == [
        ["N", "0", "1"],
        ["N", "2", "3"],
        ["N", "4"],
    ]
    assert max(len(line) for part in parts for line in lines(None, part)) <= 40
