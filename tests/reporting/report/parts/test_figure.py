"""Figures: colours with enough contrast, marks, names that Plotly cannot read as markup, and logarithmic axes."""

import math

import pytest

from kernellab.reporting.report.parts.figure import COLOURS, LIMIT_COLOUR, drawn_name, log_axis, marks
from support.records import result
from support.sweeps import derived_record

_PAPERS = ("#ffffff", "#16181b")  # as in base.css


def _luminance(colour):
    channels = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return sum(weight * value for weight, value in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def test_every_colour_has_the_contrast_that_graphics_need_on_light_and_on_dark_paper():
    for colour in (*COLOURS, LIMIT_COLOUR):
        for paper in _PAPERS:
            low, high = sorted((_luminance(colour), _luminance(paper)))
            assert (high + 0.05) / (low + 0.05) >= 3, (colour, paper)


def test_each_implementation_has_a_mark_of_its_own():
    found = marks(derived_record(*(result(f"impl{number}") for number in range(10))))
    assert len(set(found.values())) == 10


def test_a_name_is_short_and_has_no_tags():
    assert drawn_name("<a href='x'>y</a>") == "&lt;a href='x'&gt;y&lt;/a&gt;"
    assert len(drawn_name("x" * 5000)) == 40


def test_ticks_are_at_round_numbers_within_the_axis():
    axis = log_axis([30, 400])
    assert axis["ticktext"] == ["50", "100", "200", "500"]
    assert log_axis([1, 1e6])["ticktext"] == ["1", "10", "100", "1000", "10000", "100000", "1e+06"]
    low, high = axis["range"]
    assert 10**low < 30 < 400 < 10**high


@pytest.mark.parametrize("values", [[1e308, 1.0], [5e-324, 1.0], [math.inf, 0.0]])
def test_numbers_at_the_ends_of_what_a_number_can_be_have_an_axis(values):
    axis = log_axis(values)
    assert all(map(math.isfinite, axis["range"]))
    assert 1.0 in axis["tickvals"]
