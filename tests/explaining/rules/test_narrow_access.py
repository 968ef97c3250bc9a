import dataclasses

from support.subjects import first_finding, found_rules, kernel, subject

HALVES = kernel(flight_bytes=2, load_bytes=2.0, widest_bytes=2, threads=256, blocks=2 * 10**6, blocks_per_sm=8)


def test_loads_of_two_bytes_gain_from_wider_ones():
    finding = first_finding(subject(HALVES, dtype="bfloat16"))
    assert (finding.name, finding.confidence) == ("narrow-access", "likely")
    assert 2 < finding.gain < 5


def test_wide_loads_are_not_reported():
    wide = dataclasses.replace(HALVES, flight_bytes=32, widest_bytes=16, load_bytes=16.0)
    assert found_rules(subject(wide, dtype="bfloat16")) == []
