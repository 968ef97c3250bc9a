"""Numbers as people expect them."""

import pytest

from kernellab.reporting.text import numbers


@pytest.mark.parametrize(
    ("us", "text"), [(0.25, "250 ns"), (8.3, "8.3 µs"), (508.94, "508.9 µs"), (5252, "5.252 ms"), (2.5e6, "2.5 s")]
)
def test_durations_have_the_usual_unit(us, text):
    assert numbers.duration(us) == text


@pytest.mark.parametrize(("value", "text"), [(1.0042, "1.004"), (0.9958, "0.996"), (12.44, "12.4"), (0.0959, "0.0959")])
def test_ratios_near_one_keep_their_last_digit(value, text):
    assert numbers.ratio(value) == text


@pytest.mark.parametrize(("count", "text"), [(512, "512 B"), (1 << 26, "64 MiB"), (3 << 29, "1.5 GiB")])
def test_bytes_have_binary_units(count, text):
    assert numbers.memory(count) == text


@pytest.mark.parametrize(
    ("interval", "text"), [((99.97, 100.03), "±0.03 %"), ((97, 103), "±3.0 %"), ((0, 300), "±150 %")]
)
def test_the_spread_is_half_the_interval_relative_to_the_median(interval, text):
    assert numbers.spread(100, *interval) == text
