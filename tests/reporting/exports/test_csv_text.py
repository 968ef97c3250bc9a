"""CSV: every number with all its digits, every text a text."""

import csv
import io

import pytest

from kernellab.record.reading import load
from kernellab.record.verdict import derive
from kernellab.reporting.exports.columns import COLUMNS, rows
from kernellab.reporting.exports.csv_text import csv_text, results_csv
from support.hostile_names import HOSTILE_NAMES
from support.hostile_records import TEXTS, every_text
from support.sample_records import sample_record, sample_run


def read(text):
    return list(csv.reader(io.StringIO(text)))


@pytest.mark.parametrize(
    "formula",
    ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", " =1", "＝1", '=cmd|"/C calc"!A0', "-2+3+cmd|' /C calc'!A0"],
)
def test_a_text_never_becomes_a_formula(formula):
    (_, (cell, other)) = read(csv_text(["a", "b"], [{"a": formula, "b": "gelu"}]))
    assert cell.startswith("'")
    assert other == "gelu"


def test_numbers_are_numbers_also_negative_ones():
    (_, cells) = read(csv_text(["a", "b", "c", "d"], [{"a": -0.1, "b": 1 / 3, "c": 12, "d": None}]))
    assert cells == ["-0.1", repr(1 / 3), "12", ""]


def test_a_cell_is_one_line_and_commas_and_quotes_stay_in_it():
    (_, cells) = read(csv_text(["a", "b"], [{"a": 'x,"y"\nz', "b": "\x1b[31mred"}]))
    assert cells == ['x,"y" z', "\ufffd[31mred"]


@pytest.mark.parametrize("name", HOSTILE_NAMES[:4])
def test_hostile_names_stay_in_their_cells(name):
    run = sample_record("run-gelu")
    run["results"][0]["impl"] = name
    run["results"][0]["derived"]["reason"] = f"={name}"
    header, *lines = read(results_csv(run))
    assert all(len(line) == len(header) for line in lines)
    assert not any(c for line in lines for cell in line for c in cell if not c.isprintable())


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_a_strangers_texts_are_texts_in_every_cell(text):
    run = derive(every_text(load(sample_run("run-gelu")), text))
    for result in run["results"]:
        result["op"] = result["impl"] = text
    header, *lines = read(results_csv(run))
    assert all(len(line) == len(header) for line in lines)
    for line in lines:
        for cell in line:
            assert not cell.lstrip().startswith(("=", "+", "@"))
            assert all(c.isprintable() for c in cell)
            assert len(cell) <= 32_767


def test_results_can_be_read_back():
    run = sample_record("bench-softmax")
    header, *lines = read(results_csv(run))
    assert header == [column.name for column in COLUMNS]
    for line, row in zip(lines, rows(run), strict=True):
        for text, value in zip(line, row.values(), strict=True):
            assert text == ("" if value is None else repr(value) if isinstance(value, float) else str(value))
