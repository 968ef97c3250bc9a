"""Whether reported times are true, by a clock that the tests set."""

from types import SimpleNamespace

import pytest

from kernellab.record.result_events import SamplesDiscarded
from kernellab.running.parent import cross_check
from kernellab.running.parent.cross_check import AGREES, DISAGREES, NOT_CHECKED, TOLERANCE, CrossCheck, CrossChecks
from kernellab.running.processes.kernel_counts import KernelCounts
from kernellab.running.protocol.events import BatchEnded, BatchOffered, BatchQueued, BatchReady

MESSAGE_US = 100.0
SERIES = {"pass": "forward", "timer": "clock", "cache": "cold"}


class Machine:
    """A worker that takes `call_us` per call, and the parent's clock."""

    def __init__(
        self, monkeypatch, call_us, *, host_us=0.0, waits=0.0, own_wait_us=0.0, maps=0.0, most=32, near_us=None
    ):
        self.now_us, self.waited_us, self.system_us, self.maps = 0.0, 0.0, 0.0, maps
        self.own_wait_us, self.own_waited_us = own_wait_us, 0.0
        self.call_us, self.host_us, self.waits, self.most, self.near_us = call_us, host_us, waits, most, near_us
        self.calls = []
        self.ran = 1.0  # of the time
        monkeypatch.setattr(cross_check, "_now_us", lambda: self.now_us)
        monkeypatch.setattr(cross_check, "read_kernel_counts", self._counts)
        monkeypatch.setattr(cross_check, "own_wait_us", lambda: self.own_waited_us)

    def _counts(self, pid):
        return KernelCounts(
            pid,
            ran_us={pid: self.ran * self.now_us},
            waited_us={pid: self.waited_us},
            page_faults=0,
            system_us=self.system_us,
        )

    def run(self, check, reported_us):
        """Run batches as the worker does, until the parent has enough; returns the verdict."""
        while True:
            near_us = reported_us if self.near_us is None else self.near_us
            batch = check.next_batch(BatchOffered(impl="a", most=self.most, near_us=near_us))
            if batch.calls is None:
                return check.verdict
            self.calls.append(batch.calls)
            check.begin()
            self.now_us += MESSAGE_US + batch.calls * self.host_us
            if self.host_us:
                check.mark_queued()
            self.now_us += batch.calls * max(0.0, self.call_us - self.host_us)
            waiting_us = self.waits * batch.calls * self.call_us
            self.now_us, self.waited_us = self.now_us + waiting_us, self.waited_us + waiting_us
            self.system_us += self.maps * batch.calls * self.call_us
            self.now_us, self.own_waited_us = self.now_us + self.own_wait_us, self.own_waited_us + self.own_wait_us
            check.end()


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_true_time_agrees_in_the_first_batch(monkeypatch, device):
    machine, check = Machine(monkeypatch, 500.0), CrossCheck(device, 500.0, 1)
    assert machine.run(check, 500.0) == AGREES
    assert (check.batches, check.reason) == (1, None)
    assert check.outside_us == pytest.approx(500.0)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_half_the_time_is_refused_after_three_batches_and_a_time_within_the_tolerance_is_not(monkeypatch, device):
    machine, check = Machine(monkeypatch, 500.0), CrossCheck(device, 250.0, 1)
    assert machine.run(check, 250.0) == DISAGREES
    assert check.batches == 3
    assert "250 µs per call were reported, and it takes at least 500 µs by a clock outside" in check.reason
    within = CrossCheck(device, 500.0 / TOLERANCE[device], 1)
    assert machine.run(within, 500.0) == AGREES


def test_one_slow_batch_does_not_refuse_a_time(monkeypatch):
    machine, check = Machine(monkeypatch, 2000.0), CrossCheck("cpu", 500.0, 1)
    begin = check.begin

    def begin_faster():
        machine.call_us = 2000.0 if check.batches < 3 else 500.0
        return begin()

    monkeypatch.setattr(check, "begin", begin_faster)
    assert machine.run(check, 500.0) == AGREES
    assert check.batches == 3


def test_the_number_of_calls_cannot_be_predicted(monkeypatch):
    machine = Machine(monkeypatch, 500.0)
    for _ in range(30):
        machine.run(CrossCheck("cpu", 100.0, 1), 100.0)
    counts = set(machine.calls) - {0}
    assert min(counts) >= 16
    assert max(counts) <= 32
    assert len(counts) > 5


def test_where_the_host_dominates_nothing_is_told(monkeypatch):
    check = CrossCheck("cuda", 10.0, 1)
    assert Machine(monkeypatch, 80.0, host_us=80.0).run(check, 10.0) == NOT_CHECKED
    assert check.reason == "the host takes longer to launch its calls than the GPU to run them"
    assert check.outside_us == pytest.approx(80.0)
    # The host is fast, and the GPU takes longer than was reported.
    assert Machine(monkeypatch, 80.0, host_us=5.0).run(CrossCheck("cuda", 10.0, 1), 10.0) == DISAGREES


def test_a_batch_that_is_too_short_tells_nothing(monkeypatch):
    check = CrossCheck("cpu", 5.0, 1)
    assert Machine(monkeypatch, 20.0).run(check, 5.0) == NOT_CHECKED
    assert check.reason == "its batches take less than 2 ms"


def test_a_worker_that_has_to_wait_for_a_core_is_not_accused(monkeypatch):
    check = CrossCheck("cpu", 100.0, 1)
    assert Machine(monkeypatch, 500.0, waits=1.0).run(check, 100.0) == NOT_CHECKED
    assert "waiting for a core" in check.reason
    assert check.batches == 8


def test_where_klab_itself_has_to_wait_for_a_core_nobody_is_accused(monkeypatch):
    """Meanwhile the worker goes on and verifies its results, so that it does not seem to sleep."""
    check = CrossCheck("cpu", 2.0, 1)
    assert Machine(monkeypatch, 2.0, own_wait_us=3000.0).run(check, 2.0) == NOT_CHECKED
    forged = CrossCheck("cpu", 100.0, 1)
    assert Machine(monkeypatch, 500.0, own_wait_us=100.0).run(forged, 100.0) == DISAGREES


def test_a_worker_whose_threads_hardly_ran_is_not_accused(monkeypatch):
    """Threads that wait for each other sleep; the system does not count that as waiting for a core."""
    machine = Machine(monkeypatch, 500.0)
    machine.ran = 0.1
    assert machine.run(CrossCheck("cpu", 100.0, 1), 100.0) == NOT_CHECKED
    assert machine.run(CrossCheck("cuda", 100.0, 1), 100.0) == DISAGREES  # the host sleeps while the GPU computes


def test_a_gpu_that_others_use_too_is_not_held_against_an_implementation(monkeypatch):
    asked = []

    def others():
        asked.append(True)
        return True

    check = CrossCheck("cuda", 100.0, 1, others)
    assert Machine(monkeypatch, 500.0).run(check, 100.0) == NOT_CHECKED
    assert (check.reason, check.batches, asked) == ("other processes use the GPU", 3, [True])
    assert Machine(monkeypatch, 100.0).run(CrossCheck("cuda", 100.0, 1, others), 100.0) == AGREES
    assert asked == [True], "it takes a second to ask"


def test_time_without_a_core_does_not_make_a_forged_time_agree(monkeypatch):
    assert Machine(monkeypatch, 500.0, waits=4.0).run(CrossCheck("cpu", 600.0, 1), 600.0) == NOT_CHECKED


def test_a_system_that_takes_long_to_map_memory_is_not_held_against_an_implementation(monkeypatch):
    check = CrossCheck("cpu", 2000.0, 1)
    assert Machine(monkeypatch, 5000.0, maps=0.5).run(check, 2000.0) == NOT_CHECKED
    assert check.reason == "the system took long to map memory for its results"
    assert Machine(monkeypatch, 5000.0, maps=0.05).run(CrossCheck("cpu", 2000.0, 1), 2000.0) == DISAGREES


def test_a_machine_that_has_become_slow_is_not_held_against_an_implementation(monkeypatch):
    check = CrossCheck("cpu", 250.0, 1)
    assert Machine(monkeypatch, 500.0, near_us=500.0).run(check, 250.0) == AGREES
    assert check.batches == 3


def test_a_single_delay_of_the_workers_timer_does_not_excuse_a_forged_time(monkeypatch):
    machine, check = Machine(monkeypatch, 500.0, near_us=500.0), CrossCheck("cpu", 166.0, 1)
    begin = check.begin

    def begin_and_recover():
        if check.batches:
            machine.near_us = 166.0
        return begin()

    check.begin = begin_and_recover
    assert machine.run(check, 166.0) == DISAGREES


def test_an_implementation_that_answers_in_the_place_of_kernellab_is_refused(monkeypatch):
    machine, check = Machine(monkeypatch, 500.0), CrossCheck("cpu", 250.0, 1)
    for _ in range(4):
        check.next_batch(BatchOffered(impl="a", most=32, near_us=250.0))
        check.begin()
        machine.now_us += MESSAGE_US
        check.end()
    machine.now_us += 16_000.0
    check.end()
    assert check.next_batch(BatchOffered(impl="a", most=32, near_us=250.0)).calls is None
    assert check.verdict == DISAGREES
    assert "told the parent" in check.reason


def test_a_group_answers_questions_and_has_a_verdict_for_every_time():
    checks = CrossChecks("cpu", lambda impl, series: 100.0, lambda: SimpleNamespace(pid=1))
    offer = BatchOffered(pass_name="forward", timer="clock", cache="cold", impl="a", most=8, near_us=100.0)
    assert checks.observe(offer).calls == 0
    assert checks.observe(BatchReady()).message_name == "start"
    assert checks.observe(BatchQueued()) is None
    assert checks.observe(BatchEnded()) is None
    assert checks.conclude("a", SERIES)["verdict"] == NOT_CHECKED
    assert checks.conclude("never offered", SERIES)["reason"] == "no batch was run"
    checks.observe(SamplesDiscarded())
    assert checks.conclude("a", SERIES)["reason"] == "no batch was run"
