from kernellab.explaining.rules.at_the_limit import examine
from support.subjects import GOOD_KERNEL, LIMIT_US, first_finding, found_rules, kernel, matmul, subject


def test_a_good_kernel_is_at_the_limit_when_timed_and_without_findings_when_not():
    finding = first_finding(subject(GOOD_KERNEL, time_us=LIMIT_US / 0.97))
    assert (finding.name, finding.gain) == ("at-the-limit", None)
    assert finding.title == "at the limit: 97 % of measured bandwidth"
    assert found_rules(subject(GOOD_KERNEL)) == []


def test_a_matmul_is_compared_with_the_matmul_rate():
    limit_us = matmul().limit.roof_us
    assert examine(matmul(time_us=limit_us / 0.92)).title == "at the limit: 92 % of measured matmul rate"
    assert examine(matmul(time_us=limit_us / 0.88)) is None


def test_findings_that_promise_a_gain_are_dropped_at_the_limit():
    spilling = kernel(spill_bytes=400, stack_bytes=200, instructions={**GOOD_KERNEL.instructions, "local_load": 50})
    assert found_rules(subject(spilling, time_us=LIMIT_US / 0.95)) == ["at-the-limit"]
    assert found_rules(subject(spilling, time_us=3 * LIMIT_US))[0] == "spills"


def test_a_warm_time_is_not_compared_with_the_limit_of_memory():
    assert examine(subject(GOOD_KERNEL, time_us=LIMIT_US / 0.97, cache="warm")) is None
