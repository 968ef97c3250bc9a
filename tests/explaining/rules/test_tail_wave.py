import dataclasses

import pytest

from kernellab.explaining.rules.tail_wave import examine
from support.subjects import LIMIT_US, first_finding, found_rules, kernel, subject

BUSY = {"bytes_read": 32_000_000, "bytes_written": 32_000_000, "flops": {"fp32": 10**10}}
ONE_PER_SM = kernel(
    **{"threads": 1024, "blocks": 133, "shared_bytes": 120 * 1024, "blocks_per_sm": 1},
    **{"loop": {"global_load": 1}, "pointer_bytes": 64_000_000},
)


def test_one_block_more_than_sms_takes_a_second_round():
    finding = first_finding(subject(ONE_PER_SM, cost=BUSY))
    assert (finding.name, finding.gain) == ("tail-wave", pytest.approx(2 * 132 / 133))
    assert finding.title == "133 blocks over 132 SMs: 131 are idle in the last of 2 rounds"


def test_a_multiple_of_the_sms_has_no_tail():
    assert found_rules(subject(dataclasses.replace(ONE_PER_SM, blocks=4 * 132), cost=BUSY)) == []


def test_a_tail_costs_a_memory_bound_kernel_nothing():
    assert examine(subject(kernel(blocks=16 * 132 + 1))) is None


def test_loops_of_unknown_length_may_take_a_time_that_nothing_else_explains():
    looping = kernel(threads=1024, blocks=133, blocks_per_sm=1, registers=64, unknown_turns={"fp32": 2})
    assert examine(subject(looping)) is None
    finding = first_finding(subject(looping, time_us=20 * LIMIT_US))
    assert (finding.name, finding.gain) == ("tail-wave", pytest.approx(2 * 132 / 133))
