import pytest

from support.subjects import LIMIT_US, first_finding, found_rules, kernel, subject

TWO_LOOPS = kernel(loading_loops=2)


def test_two_loops_that_load_may_read_the_input_twice():
    finding = first_finding(subject(TWO_LOOPS, time_us=1.8 * LIMIT_US))
    assert (finding.name, finding.confidence, finding.gain) == ("reads-again", "possible", pytest.approx(1.5))


def test_loops_are_not_reported_without_a_time_or_at_the_limit():
    assert found_rules(subject(TWO_LOOPS)) == []  # L2 may serve the second loop
    assert found_rules(subject(TWO_LOOPS, time_us=1.05 * LIMIT_US)) == ["at-the-limit"]
