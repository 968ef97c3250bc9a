"""Charts made of characters."""

import pytest

from kernellab.reporting.charts import characters, series
from support.sweeps import console, swept


def test_the_chart_fits_and_has_a_letter_for_each_implementation_when_piped():
    pytest.importorskip("plotext")
    (sweep,) = series.find(swept())
    out = console()
    characters.show(sweep, out)
    text = out.file.getvalue()
    assert "\x1b" not in text
    assert max(map(len, text.splitlines())) <= 80
    assert all(name in text for name in ("a torch", "b cpp", "c liar", "8192", "GB/s"))
    assert "cuda" not in text
    out = console(width=60, terminal=True)
    characters.show(sweep, out)
    assert max(map(len, out.file.getvalue().splitlines())) <= 60


def test_a_sparkline_goes_from_the_lowest_to_the_highest_value_and_shares_blocks_where_it_is_narrow():
    assert characters.sparkline([1, 2, 3, 4, 5, 6, 7, 8], 8) == "▁▂▃▄▅▆▇█"
    assert characters.sparkline([1, 1, 2, 2], 2) == "▁█"
    assert characters.sparkline([1, 2, 3], 40) == "▁▅█"
    assert len(characters.sparkline(list(range(1000)), 40)) == 40
    assert characters.sparkline([], 8) == ""


def test_a_sparkline_shows_a_small_range_as_flat():
    assert characters.sparkline([100, 100, 100], 8) == "▅▅▅"
    assert set(characters.sparkline([100, 101, 100], 8, least_range=0.1)) <= set("▄▅")
