import pytest

from kernellab.explaining.rules.atomics import examine
from support.subjects import GOOD_KERNEL, LIMIT_US, first_finding, found_rules, kernel, subject

ADDING = kernel(instructions={**GOOD_KERNEL.instructions, "global_atomic": 1})


def test_atomics_are_a_possible_cause_of_a_time_that_nothing_else_explains():
    finding = first_finding(subject(ADDING, time_us=6 * LIMIT_US))
    assert (finding.name, finding.confidence, finding.gain) == ("atomics", "possible", pytest.approx(6.0))


def test_without_an_unexplained_time_atomics_are_not_reported():
    assert found_rules(subject(ADDING)) == []  # how many threads meet at an address is not in the code
    assert examine(subject(ADDING, time_us=1.5 * LIMIT_US)) is None
    assert examine(subject(GOOD_KERNEL, time_us=6 * LIMIT_US)) is None
