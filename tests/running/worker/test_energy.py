"""The energy of implementations in a worker: guarded, verified, and refused with a reason."""

from contextlib import contextmanager
from functools import partial
from time import monotonic

import pytest

from kernellab.energy import blocks
from kernellab.energy.blocks import Plan
from kernellab.energy.counters import EnergyUnknown
from kernellab.energy.rounds import measure_energy
from kernellab.machine.telemetry import Telemetry
from kernellab.running.worker import energy
from kernellab.running.worker.energy import EnergyMeter
from support.timing import CPU, NoGuard, timed_impl, two_content_sets


class FakeCounter:
    """A device of 50 W, whose counter moves every millisecond."""

    name = "rapl"

    def joules(self):
        return 50 * int(monotonic() * 1000) / 1000


class RecordingGuard(NoGuard):
    def __init__(self):
        self.verified, self.judged = [], []

    def verifier(self, impl):
        return lambda result, number: self.verified.append((impl.name, result, number))

    def judge(self, impl, burst, *, timed):
        self.judged.append((impl.name, timed))


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(energy, "counter_of", lambda device: FakeCounter())
    monkeypatch.setattr(energy, "measure_energy", partial(measure_energy, plan=Plan(least_s=0.01, resolution=0.2)))
    monkeypatch.setattr(blocks, "_IDLE_S", 0.01)
    monkeypatch.setattr(blocks, "_RESPONSE_S", (0.02,))


def measure(impls, guard=None, *, read=lambda: {"sm_mhz": None}, blocks=8):
    ran = []

    @contextmanager
    def running(name, phase):
        ran.append((name, phase))
        yield

    guard = guard or RecordingGuard()
    meter = EnergyMeter(CPU, Telemetry(read, 0.0), guard, running, seed=0)
    return meter.measure({impl.name: impl for impl in impls}, {impl.name: 100.0 for impl in impls}, blocks), ran


def busy(name, **flags):
    def prepare(inputs):
        def call():
            until = monotonic() + 1e-4
            while monotonic() < until:
                pass
            return inputs["x"]

        return call

    return timed_impl(prepare, two_content_sets(4), name, **flags)


def test_every_block_is_attributed_verified_and_judged():
    guard = RecordingGuard()
    measured, ran = measure([busy("a"), busy("b")], guard)
    assert {name: len(entry["joules"]) for name, entry in measured.items()} == {"a": 8, "b": 8}
    assert ran.count(("b", "energy")) == 8
    assert len(ran) == len(guard.verified) == len(guard.judged) == 17  # one shows how the counter responds
    assert all(timed for _, timed in guard.judged)
    entry = measured["a"]
    assert (entry["status"], entry["counter"], entry["contended"]) == ("ok", "rapl", None)
    assert entry["sets_bytes"] == 4 * 64 * 4
    assert all(watts == pytest.approx(50, rel=0.3) for watts in entry["watts"])
    assert all(us >= 100 for us in entry["us"])


def test_what_cannot_be_measured_alone_says_why():
    impls = [busy("a"), busy("changes", restores_inputs=True), busy("backward", prepare_runs_impl=True)]
    measured, ran = measure(impls)
    assert measured["a"]["status"] == "ok"
    assert measured["changes"]["reason"] == "it changes its inputs, and restoring them takes energy too"
    assert "--pass both" in measured["backward"]["reason"]
    assert {name for name, _ in ran} == {"a"}


def test_without_a_counter_every_implementation_says_why(monkeypatch):
    def none(device):
        raise EnergyUnknown("this machine has no counter")

    monkeypatch.setattr(energy, "counter_of", none)
    measured, ran = measure([busy("a"), busy("b")])
    assert [(entry["status"], entry["reason"]) for entry in measured.values()] == [
        ("skipped", "this machine has no counter")
    ] * 2
    assert not ran


def test_a_counter_that_fails_in_a_block_is_nobodys_fault(monkeypatch):
    class Failing(FakeCounter):
        reads = 0

        def joules(self):
            self.reads += 1
            if self.reads > 60:
                raise EnergyUnknown("the driver gives no energy counter of this GPU")
            return super().joules()

    monkeypatch.setattr(energy, "counter_of", lambda device: Failing())
    guard = RecordingGuard()
    measured, ran = measure([busy("a")], guard)
    assert measured["a"]["reason"] == "the driver gives no energy counter of this GPU"
    assert len(guard.judged) == len(ran)  # its calls are judged all the same


def test_an_implementation_that_fails_is_not_hidden():
    def prepare(inputs):
        def call():
            raise RuntimeError("broken")

        return call

    with pytest.raises(RuntimeError, match="broken"):
        measure([timed_impl(prepare, two_content_sets(4), "a")])


def test_others_that_use_the_device_are_named():
    crowded = {"others_cores": 1.5, "span_s": 1.0, "cores": 2, "threads": 2, "steal": 0.0}
    measured, _ = measure([busy("a")], read=lambda: crowded)
    assert measured["a"]["contended"] == "other processes used 1.5 of 2 cores"
