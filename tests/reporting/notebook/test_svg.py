"""Charts: their marks are where the numbers are, and their colours can be seen on light and on dark."""

import itertools
import re
import xml.etree.ElementTree as ElementTree

import pytest

from kernellab.record import verdict
from kernellab.reporting.charts import series
from kernellab.reporting.notebook import svg
from support.hostile_names import HOSTILE_NAMES
from support.records import record, timed
from support.sweeps import swept


def group(**times):
    return verdict.derive(record(*(timed(impl, us) for impl, us in times.items())))["results"]


def marks(chart, tag):
    return list(ElementTree.fromstring(chart).iter(tag))


def test_bars_are_as_long_as_the_times_the_fastest_first():
    chart = svg.bars(group(slow=400.0, fast=100.0, middle=200.0))
    widths = [float(rect.get("width")) for rect in marks(chart, "rect")]
    assert widths[2] / widths[0] == pytest.approx(4, rel=0.01)
    assert widths[1] / widths[0] == pytest.approx(2, rel=0.01)
    names = [text.text for text in marks(chart, "text")]
    assert names[0::2] == ["fast", "middle", "slow"]
    assert names[1] == "100.1 µs"


def test_one_time_is_no_chart():
    assert svg.bars(group(alone=10.0)) == ""


def test_curves_have_a_point_for_each_size_and_a_gap_where_one_is_missing():
    (sweep,) = series.find(swept())
    drawing = ElementTree.fromstring(svg.curves(sweep))
    timed = sum(len(sweep.curve(impl)) for impl in sweep.impls)
    circles = list(drawing.iter("circle"))
    assert len(circles) == timed > 15
    xs = sorted({float(circle.get("cx")) for circle in circles})
    steps = [b - a for a, b in itertools.pairwise(xs)]
    assert steps == [pytest.approx(steps[0], abs=0.2)] * 7  # sizes grow by factors: equal steps
    lines = [path.get("d") for path in drawing.iter("path") if path.get("stroke-width") == "1.5"]
    assert [line.count("M") for line in lines] == [1] * len(lines)
    assert {text.text for text in drawing.iter("text")} >= {"64", "8192", "N", "torch", "cpp"}


def test_a_wide_interval_stays_inside_the_chart():
    results = group(a=10.0, b=20.0)
    results[1]["derived"]["time"]["high_us"] = 1e9
    numbers = [
        float(n) for path in marks(svg.bars(results), "path") for n in re.findall(r"[MH](\d+\.\d)", path.get("d"))
    ]
    assert max(numbers) <= 640


@pytest.mark.parametrize("name", HOSTILE_NAMES)
def test_names_are_escaped_and_cut(name):
    results = group(a=10.0, b=20.0)
    results[0]["impl"] = name
    chart = svg.bars(results)
    assert {element.tag for element in ElementTree.fromstring(chart).iter()} == {"svg", "title", "rect", "path", "text"}
    assert "hacked = 1</script>" not in chart


def luminance(colour):
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("page", ["#ffffff", "#111111", "#1e1e1e"])  # Jupyter's light and dark, VS Code's dark
def test_colours_contrast_with_light_and_dark(page):
    for colour in svg.COLOURS:
        darker, lighter = sorted((luminance(colour), luminance(page)))
        assert (lighter + 0.05) / (darker + 0.05) >= 3, colour
