import pytest

from support.subjects import LIMIT_US, first_finding, found_rules, kernel, subject

SCATTERED = kernel(sectors=8.0, widest_bytes=4, load_bytes=4.0)


def test_scattered_addresses_gain_the_sectors_they_waste():
    finding = first_finding(subject(SCATTERED))
    assert (finding.name, finding.confidence, finding.gain) == ("uncoalesced", "likely", 8.0)


def test_a_measured_time_corrects_the_gain():
    assert first_finding(subject(SCATTERED, time_us=5 * LIMIT_US)).gain == pytest.approx(5.0)


def test_unknown_addresses_are_a_possible_cause_of_a_time_that_nothing_else_explains():
    finding = first_finding(subject(kernel(sectors=None), time_us=6 * LIMIT_US))
    assert (finding.name, finding.confidence) == ("uncoalesced", "possible")
    assert found_rules(subject(kernel(sectors=None), time_us=2 * LIMIT_US)) == []
