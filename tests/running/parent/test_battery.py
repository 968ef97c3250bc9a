"""The parent's side of a battery: what is tried again, what is blamed, and when an implementation is stopped."""

from types import SimpleNamespace

import pytest

from kernellab.declaration.case import Case
from kernellab.record.battery_events import TrialFinished
from kernellab.record.journal import Journal
from kernellab.record.result_events import PhaseBegun
from kernellab.record.settings import Settings
from kernellab.running.parent.battery import Battery
from kernellab.running.parent.failed_trials import FailedTrials
from kernellab.running.parent.worker_slot import LostWorker
from kernellab.running.protocol.events import CulpritNamed, WorkerSpent
from kernellab.trials.trial import Trial

TRIALS = [Trial("sizes", Case({"N": n}, "float32")).to_labelled_json() for n in range(30)]


class Slot:
    """Carries out the battery as a worker would. `fate(impl, number, trusts_peer)` says how a trial ends."""

    kind = "native"

    def __init__(self, fate):
        self.fate, self.workers = fate, 0

    def work(self, command, handle):
        self.workers += 1
        assert self.workers < 200
        stored = max(map(len, command.stored.values()))
        for number in range(-stored, len(TRIALS)):
            trial = TRIALS[number]
            for impl in command.done:
                if number < -len(command.stored[impl]):
                    continue
                if number < command.done[impl]:
                    continue
                if impl in command.stopped:
                    self._finish(handle, impl, number, "unknown", command.stopped[impl])
                    continue
                handle(PhaseBegun(impl=impl, phase="try", number=number, trial=trial))
                trusts = "torch" not in command.distrusted and trial not in command.distrusted_at
                fate = self.fate(impl, number, trusts)
                if isinstance(fate, LostWorker):
                    return fate
                if fate == "gpu fault":
                    self._finish(handle, impl, number, "crashed", "GPU fault")
                    handle(WorkerSpent())
                    return None
                if fate == "peer's gpu fault":
                    handle(CulpritNamed(impl="torch", reason="GPU fault"))
                    handle(WorkerSpent())
                    return None
                self._finish(handle, impl, number, fate, None)
        return None

    def _finish(self, handle, impl, number, status, reason):
        handle(TrialFinished(impl=impl, number=number, trial=TRIALS[number], status=status, reason=reason))


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.setenv("KERNELLAB_CACHE", str(tmp_path / "cache"))

    def run(fate, impls=("manual", "torch", "mine"), killers=(), timeout_s=60.0, stored=0):
        failed_trials = FailedTrials("op", "file.py")
        learned = [{"trial": {**trial, "kind": f"kind {n}"}, "status": "crashed"} for n, trial in enumerate(TRIALS)]
        failed_trials.update("mine", learned[:stored])
        journal = Journal(tmp_path / "run")
        journal.record["machine"] = {"device": "cpu"}
        settings = Settings(["op"], ["battery"], {"dtypes": [], "quick": False}, timeout_s=timeout_s)
        slot = Slot(fate)
        Battery("op", slot, settings, journal, failed_trials, killers).run(impls, lambda event: None)
        outcomes = {impl: [None] * len(TRIALS) for impl in impls}
        for entry in journal.record["trials"]:
            if entry["number"] < 0:
                continue
            assert outcomes[entry["impl"]][entry["number"]] is None, "every trial has one outcome"
            outcomes[entry["impl"]][entry["number"]] = entry["status"]
        reasons = {entry["reason"] for entry in journal.record["trials"] if entry["status"] == "unknown"}
        return SimpleNamespace(outcomes=outcomes, workers=slot.workers, reasons=reasons)

    return run


def lost(impl, status="crashed", phase="try"):
    return LostWorker(impl, phase, status, "segmentation fault")


@pytest.mark.parametrize("status", ["crashed", "timeout", "oom"])
def test_a_crash_ends_its_trial_and_the_battery_goes_on(run, status):
    ran = run(lambda impl, n, trusts: lost("mine", status) if impl == "mine" and n in (0, 7) else "ok")
    assert ran.outcomes["mine"] == [status if n in (0, 7) else "ok" for n in range(30)]
    assert set(ran.outcomes["manual"] + ran.outcomes["torch"]) == {"ok"}
    assert ran.workers == 3


def test_a_gpu_fault_ends_its_trial_and_the_battery_goes_on(run):
    ran = run(lambda impl, n, trusts: "gpu fault" if impl == "mine" and n in (0, 29) else "ok")
    assert ran.outcomes["mine"] == ["crashed", *["ok"] * 28, "crashed"]
    assert set(ran.outcomes["manual"] + ran.outcomes["torch"]) == {"ok"}


@pytest.mark.parametrize("fault", [lost("torch", phase="check"), "peer's gpu fault"])
def test_a_peer_that_takes_the_worker_down_is_blamed_and_not_the_implementation_that_is_tried(run, fault):
    def fate(impl, n, trusts):
        return fault if n in (0, 11) and trusts else "ok"

    ran = run(fate)
    assert ran.outcomes["torch"] == ["crashed" if n in (0, 11) else "ok" for n in range(30)]
    assert set(ran.outcomes["manual"] + ran.outcomes["mine"]) == {"ok"}
    assert ran.workers == 3
    without = run(fate, impls=("mine",))
    assert set(without.outcomes["mine"]) == {"ok"}


def test_an_implementation_that_takes_down_too_many_workers_is_stopped_and_that_is_said(run):
    ran = run(lambda impl, n, trusts: lost("mine") if impl == "mine" and n % 2 else "ok")
    assert ran.outcomes["mine"].count("crashed") == 10
    assert ran.outcomes["mine"][20:] == ["unknown"] * 10
    assert ran.reasons == {"not tried: it had ended its process 10 times"}
    assert set(ran.outcomes["manual"]) == {"ok"}


def test_an_implementation_that_has_never_returned_is_stopped_sooner(run):
    ran = run(lambda impl, n, trusts: lost("mine") if impl == "mine" else "ok", killers=["mine"])
    assert ran.outcomes["mine"] == ["crashed"] * 2 + ["unknown"] * 28


def test_stored_trials_that_crash_again_do_not_use_up_the_battery(run):
    ran = run(lambda impl, n, trusts: lost("mine") if impl == "mine" and n < 0 else "ok", stored=10)
    assert ran.outcomes["mine"] == ["ok"] * 30
    assert ran.workers == 11


@pytest.mark.parametrize(("timeout_s", "timeouts"), [(60.0, 5), (3.0, 10), (600.0, 3)])
def test_timeouts_are_waited_for_a_few_minutes_in_all(run, timeout_s, timeouts):
    ran = run(
        lambda impl, n, trusts: lost("mine", "timeout") if n % 2 and impl == "mine" else "ok", timeout_s=timeout_s
    )
    assert ran.outcomes["mine"].count("timeout") == timeouts
    assert ran.outcomes["mine"].count("unknown") == 30 - 2 * timeouts


@pytest.mark.parametrize("phase", ["oracle", None])
def test_a_worker_that_no_implementation_took_down_is_lost_three_times_at_most(run, phase):
    ran = run(lambda impl, n, trusts: lost(None, phase=phase))
    assert ran.workers == 3
    assert all(outcomes == ["unknown"] * 3 + [None] * 27 for outcomes in ran.outcomes.values())
    assert any("the rest of the battery is not tried" in reason for reason in ran.reasons)
