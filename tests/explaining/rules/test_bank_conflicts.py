import pytest

from support.subjects import GOOD_KERNEL, LIMIT_US, first_finding, found_rules, kernel, subject

CODE = {**GOOD_KERNEL.instructions, "shared_load": 4, "shared_store": 4}


def test_conflicts_gain_the_time_that_shared_memory_is_busy_beyond_the_rest():
    finding = first_finding(subject(kernel(instructions=CODE, conflicts=32.0)))
    assert (finding.name, finding.confidence) == ("bank-conflicts", "likely")
    warps = 488_282 * 4
    assert finding.gain == pytest.approx(8 * warps * 32 / 132 / 1980 / LIMIT_US)


@pytest.mark.parametrize(
    "conflicts", [1.0, None, 2.0], ids=["no conflicts", "unknown addresses", "hidden behind the bytes"]
)
def test_conflicts_that_cost_nothing_are_not_reported(conflicts):
    assert found_rules(subject(kernel(instructions=CODE, conflicts=conflicts))) == []
