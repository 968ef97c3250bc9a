import pytest

from kernellab.explaining.rules.fp64_by_accident import examine
from support.subjects import COST, GOOD_KERNEL, LIMIT_US, first_finding, found_rules, kernel, subject

DOUBLES = kernel(instructions={**GOOD_KERNEL.instructions, "fp64": 400})


def test_doubles_in_a_float32_kernel_cost_their_time():
    finding = first_finding(subject(DOUBLES))
    assert (finding.name, finding.confidence) == ("fp64-by-accident", "computed")
    assert finding.gain > 1.5


def test_doubles_in_a_float64_kernel_are_no_accident():
    assert examine(subject(DOUBLES, dtype="float64")) is None


def test_doubles_that_moving_the_bytes_hides_are_reported_without_a_gain():
    few = kernel(instructions={"global_load": 1, "global_store": 1, "fp64": 4})
    finding = first_finding(subject(few))
    assert (finding.name, finding.gain) == ("fp64-by-accident", None)


def test_a_few_doubles_among_much_else_are_not_reported():
    """The slow path of sin has a few of them in any kernel."""
    assert found_rules(subject(kernel(instructions={**GOOD_KERNEL.instructions, "fp64": 4}))) == []


def test_declared_operations_in_fp64_take_the_time_of_fp64():
    busy = {**COST, "flops": {"fp32": 10**11}}
    code = {"global_load": 1, "global_store": 1, "fp64": 2}
    finding = first_finding(subject(kernel(instructions=code, unknown_turns={"fp64": 2}), cost=busy))
    assert (finding.name, finding.gain) == ("fp64-by-accident", pytest.approx(2.0))


def test_doubles_in_a_loop_of_unknown_length_account_for_a_time_that_nothing_else_explains():
    looping = kernel(instructions={**GOOD_KERNEL.instructions, "fp64": 5}, unknown_turns={"fp64": 5})
    finding = first_finding(subject(looping, time_us=8 * LIMIT_US))
    assert finding.name == "fp64-by-accident"
    assert finding.gain == pytest.approx(2.0)  # fp64 of an H200 is half as fast
    assert found_rules(subject(looping, time_us=1.5 * LIMIT_US)) == []
