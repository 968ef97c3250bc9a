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
