"""Calls in a row: how many were made at which time, and that the last result is verified."""

from collections import deque
from types import SimpleNamespace

import pytest
import torch

from kernellab.energy import loads
from kernellab.energy.loads import load_of
from support.timing import CPU, timed_impl, two_content_sets

GPU = torch.device("cuda:0")


@pytest.fixture
def clock(monkeypatch):
    state = SimpleNamespace(now=100.0)
    monkeypatch.setattr(loads, "monotonic", lambda: state.now)
    return state


def implementation(clock, seconds):
    """An implementation whose calls take so long, and the sets that it was called on."""
    called = []

    def prepare(inputs):
        def call():
            clock.now += seconds
            called.append(inputs["x"])
            return inputs["x"]

        return call

    return timed_impl(prepare, two_content_sets(4)), called


def test_calls_on_a_cpu_are_counted_and_the_last_one_is_verified(clock):
    impl, called = implementation(clock, 0.001)
    verified = []
    load = load_of(impl, CPU, 1000.0, lambda result, number: verified.append((result, number)))
    load.feed()
    assert len(called) == 2  # as many as fit into 2 ms
    progress = load.finish()
    assert (progress.at(100.0), progress.at(100.001), progress.at(clock.now)) == pytest.approx((0, 1, 4))
    ((result, number),) = verified
    assert result is called[-1]
    assert result.data_ptr() == impl.sets[number]["x"].data_ptr()
    assert called[0].data_ptr() != called[1].data_ptr()


def test_short_calls_are_made_in_numbers_that_leave_time_to_poll(clock):
    impl, called = implementation(clock, 1e-6)
    load_of(impl, CPU, 1.0, lambda result, number: None).feed()
    assert len(called) == 64


class FakeStream:
    """A GPU's stream: what is queued runs one after the other, and ends when the clock has got there."""

    def __init__(self, clock, call_s):
        self.clock, self.call_s, self.busy_until = clock, call_s, 0.0

    def queue(self):
        self.busy_until = max(self.busy_until, self.clock.now) + self.call_s

    def marks(self, device):
        stream = self

        class Marks:
            def start(self):
                self.began = max(stream.busy_until, stream.clock.now)

            def end(self):
                self.ended = stream.busy_until

            def has_ended(self):
                return stream.clock.now >= self.ended

            def us_since(self, other):
                return (self.ended - other.began) * 1e6

        return Marks()

    def wait(self, device):
        self.clock.now = max(self.clock.now, self.busy_until)
        return 7.0


@pytest.fixture
def stream(clock, monkeypatch):
    fake = FakeStream(clock, 0.001)
    monkeypatch.setattr("kernellab.timing.cuda_clock.Marks", fake.marks)
    monkeypatch.setattr(loads, "wait_for", fake.wait)
    return fake


def test_a_gpu_is_kept_busy_and_its_calls_are_counted_when_they_have_run(clock, stream):
    order = deque()
    impl = timed_impl(lambda inputs: lambda: stream.queue() or inputs["x"], two_content_sets(4))
    load = load_of(impl, GPU, 1000.0, lambda result, number: order.append(stream.busy_until))
    load.feed()
    queued_until = stream.busy_until
    assert queued_until == pytest.approx(100.010)  # two chunks of 5 ms
    load.feed()
    assert stream.busy_until == queued_until  # enough is queued
    clock.now = 100.006
    load.feed()
    assert stream.busy_until == pytest.approx(100.015)  # the first chunk has run, another one follows
    progress = load.finish()
    assert progress.at(100.0075) == pytest.approx(7.5)
    assert progress.calls[-1] == 20
    assert order == deque([pytest.approx(100.020)])  # verified behind the last call
    assert load.tail_us == 7.0
