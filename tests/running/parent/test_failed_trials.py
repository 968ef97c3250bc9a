"""The store of failed trials, which are tried first the next time."""

from kernellab.declaration.case import Case
from kernellab.running.parent.failed_trials import KEPT, FailedTrials
from kernellab.trials.trial import Trial


def test_the_store_keeps_ten_failures_and_deletes_those_that_pass(tmp_path, monkeypatch):
    monkeypatch.setenv("KERNELLAB_CACHE", str(tmp_path))

    def entry(n, kind, status):
        trial = Trial(kind, Case({"N": n}, "float32")).to_json()
        return {"trial": {**trial, "label": str(n)}, "status": status}

    store = FailedTrials("op", "file.py")
    store.update("mine", [entry(n, f"kind {n}", "wrong") for n in range(KEPT + 5)])
    assert len(store.read("mine")) == KEPT
    store.update("mine", [entry(99, "search", "crashed"), entry(0, "stored", "ok")])
    sizes = [trial["case"]["dims"]["N"] for trial in store.read("mine")]
    assert sizes[0] == 99
    assert 0 not in sizes
    assert FailedTrials("op", "other.py").read("mine") == []
    assert store.matching("mine", device="cuda", dtypes=[]) == []
    assert {trial["kind"] for trial in store.matching("mine", device="cpu", dtypes=["float32"])} == {"stored"}
