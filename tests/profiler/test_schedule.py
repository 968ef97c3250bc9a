"""Which phase each step of a program belongs to."""

import pytest

from kernellab.base.errors import UserError
from kernellab.profiler.schedule import parse_schedule


def test_a_schedule_gives_every_step_its_phase():
    schedule = parse_schedule("2,1,3,2")
    phases = [schedule.phase(step) for step in range(13)]
    assert phases == (["wait"] * 2 + ["warm-up"] + ["active"] * 3) * 2 + ["over"]
    assert [schedule.cycle(step) for step in (0, 5, 6, 12)] == [1, 1, 2, 2]


def test_zero_cycles_means_without_end():
    assert parse_schedule("0,0,1,0").phase(10**6) == "active"


def test_one_cycle_is_the_default():
    assert parse_schedule("1,2,3") == parse_schedule("1,2,3,1")


@pytest.mark.parametrize("text", ["1,2", "a,b,c", "1,1,0,1", "-1,1,1,1", "1,1,1,1,1", ""])
def test_a_schedule_that_makes_no_sense_is_refused(text):
    with pytest.raises(UserError, match="--schedule"):
        parse_schedule(text)
