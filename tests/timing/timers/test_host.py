"""The host timer: a loop of calls."""

import statistics
import time

import pytest

from kernellab.timing.timer import BurstSpec, NotApplicable
from kernellab.timing.timers.host import HostTimer
from support.timing import CPU, timed_impl


@pytest.mark.clocked
def test_a_loop_of_calls_is_timed_per_call():
    impl = timed_impl(lambda inputs: lambda: time.sleep(0.002))
    burst = HostTimer(CPU, "warm").burst(impl, BurstSpec(calls=2, windows=3))
    assert 2000 <= statistics.median(burst.samples_us) < 4000


def test_a_loop_is_not_timed_if_each_call_changes_its_inputs():
    impl = timed_impl(lambda inputs: lambda: inputs["x"].mul_(2), restores_inputs=True)
    with pytest.raises(NotApplicable):
        HostTimer(CPU, "warm").burst(impl, BurstSpec(calls=20))
