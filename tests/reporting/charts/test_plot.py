"""Sweeps drawn with matplotlib."""

import pytest

from kernellab.reporting.charts import series
from support.records import result, timed
from support.sweeps import at, derived_record


def test_a_gap_is_not_drawn_across():
    pytest.importorskip("matplotlib")
    from kernellab.reporting.charts import plot

    results = [
        at(timed("t", n) if n != 4 else result("t", status="wrong", reason="r"), {"N": n}) for n in (1, 2, 4, 8, 16)
    ]
    (sweep,) = series.find(derived_record(*results))
    line = plot.draw(sweep, derived_record(*results)).axes[0].lines[0]
    assert [y != y for y in line.get_ydata()] == [False, False, True, False, False]
