"""Records that contradict themselves in what was read beside the times."""

import copy

import pytest

from kernellab.record.consistency import find_contradiction
from support.powered import powered_record


def damaged(change):
    record = copy.deepcopy(powered_record())
    change(record)
    return find_contradiction(record)


def test_a_sound_record_has_none():
    assert find_contradiction(powered_record()) is None


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda s: s["before"].pop(), "values of `before`"),
        (lambda s: s["clocks_mhz"].append(1500.0), "values of `clocks_mhz`"),
        (lambda s: s["clocks_mhz"].__setitem__(0, -1.0), "a clock below 0"),
        (lambda s: s["energy"]["us"].pop(), "lists of different lengths"),
        (lambda s: s["energy"]["joules"].__setitem__(0, 0.0), "a number that is not above 0"),
        (lambda s: s["energy"]["blocks"].__setitem__(0, 1), "a block twice"),
    ],
)
def test_a_series_that_contradicts_itself_is_refused(change, problem):
    assert problem in damaged(lambda record: change(record["results"][0]["times"][0]))


def test_a_rate_at_no_clock_is_refused():
    def stop_clock(record):
        record["machine"]["ceilings"]["matmul_by_clock"]["bfloat16"][0]["clock_mhz"] = 0.0

    assert "matmul_by_clock has a number that is not above 0" in damaged(stop_clock)
