"""Tables of a report: choices to filter by, rows that are left out, and tables of the terminal."""

from rich.text import Text

from kernellab.reporting.report.parts.table import MOST_ROWS, Cell, Column, Table, from_terminal, lines
from kernellab.reporting.text import table as text_table


def test_a_column_is_filtered_where_it_has_several_texts():
    columns = [Column("op", filter="op"), Column("impl", filter="impl"), Column("time", numeric=True)]
    rows = [[Cell("f"), Cell(impl), Cell("1 µs")] for impl in ("torch", "triton", "torch")]
    assert Table("t", columns, rows).choices == {"impl": ["torch", "triton"]}


def test_columns_without_any_text_are_left_out_and_rows_beyond_the_limit_are_counted():
    rows = [[Cell("a"), Cell(""), Cell("b")]] * (MOST_ROWS + 7)
    table = Table("t", [Column("x"), Column("y"), Column("z")], rows).without_empty_columns()
    assert [column.title for column in table.columns] == ["x", "z"]
    assert (len(table.shown), table.left_out) == (MOST_ROWS, 7)


def test_a_table_of_the_terminal_keeps_its_alignment_and_its_styles_as_tones():
    columns = [text_table.Column("impl", "left"), text_table.Column("passed"), text_table.Column("at", style="dim")]
    rows = [text_table.Row(["torch", Text("3", style="bold red"), "8×8"]), text_table.Row(["cpp", "4", ""], "bold")]
    table = from_terminal(text_table.Table(columns, rows), "the battery")
    assert [column.numeric for column in table.columns] == [False, True, True]
    assert [[cell.tone for cell in row] for row in table.rows] == [["", "bad", "faint"], ["strong"] * 3]


def test_lines_of_the_terminal_have_the_tone_of_their_first_styled_part():
    styled = [Text(" a", style="yellow"), Text.assemble(("b ", "bold red"), "c"), Text("d")]
    assert [(line.text, line.tone) for line in lines(styled)] == [("a", "warn"), ("b c", "bad"), ("d", "")]


def test_a_long_text_is_cut_the_same_way_in_its_cell_and_in_the_choice_that_finds_it():
    names = ["a" * 5000, "b\x1b"]
    table = Table("t", [Column("impl", filter="impl")], [[Cell(name)] for name in names])
    shown = [row[0].shown for row in table.rows]
    assert table.choices == {"impl": shown}
    assert len(shown[0]) == 300
    assert shown[1].isprintable()
