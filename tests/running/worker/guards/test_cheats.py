"""Implementations that cheat are refused, and honest ones are not, on the CPU."""

import pytest

from support.cheats import (
    FILES,
    FILES_AT_LOAD,
    VERIFIER_AT_LOAD,
    assert_only_cheats_are_refused,
    file_id,
    impls_but_compile,
)

CLOCKED = ("caches",)  # found by how long it takes: the machine must be quiet
FORGED = next(path for path in FILES if path.stem == "forged_samples")
REASONS = {
    "by-pointer": "compared values are wrong",
    "by-value": "it caches results",
    "copies-by-checksum": "times as long on inputs it has not seen",
    "mutates-its-input-later": "changed its input while it was timed",
    "returns-its-input-later": "returned the memory of its input x",
    "computes-when-looked-at": "returned a Lazy, not a plain tensor",
    "recompiles-per-call": "while timing",  # compiled in the timed region, or the limit of recompiles is hit
    "patches-torch": "replaced torch.add",
    "hides-a-method-of-an-object": "replaced kernellab.timing.timers.clock.ClockTimer.burst",
    "asks-for-the-key": "asked for the oracle while it ran",
}


@pytest.mark.parametrize(
    "path",
    [pytest.param(p, marks=pytest.mark.clocked) if p.stem in CLOCKED else p for p in FILES if p != FORGED],
    ids=file_id,
)
def test_implementations_that_cheat_are_refused_and_honest_ones_are_not(klab, path):
    impls = () if path.stem == "results" else ("--impl", impls_but_compile(path))
    seen = klab("bench", path, *impls, "--seconds", "0.1", "--device", "cpu", "--json")
    assert_only_cheats_are_refused(seen, device="cpu")
    reasons = {result["impl"]: result["derived"]["reason"] for result in seen.record["results"]}
    for impl in REASONS.keys() & reasons.keys():
        assert REASONS[impl] in reasons[impl], impl


@pytest.mark.clocked
def test_forged_samples_are_refused_by_a_clock_outside_the_process(klab):
    for _ in range(5):  # while other programs keep the worker waiting, nothing can be told
        seen = klab(
            "bench", FORGED, "--impl", impls_but_compile(FORGED), "--seconds", "0.1", "--device", "cpu", "--json"
        )
        for honest in ("manual", "honest"):
            assert seen.result(honest)["derived"]["status"] == "ok", seen.result(honest)["derived"]["reason"]
        derived = seen.result("forges-its-samples")["derived"]
        if derived["status"] != "ok":
            assert "by a clock outside its process" in derived["reason"]
            return
        (entry,) = seen.result("forges-its-samples")["times"]
        assert entry["cross_check"]["verdict"] == "not cross-checked", "a forged time agrees"
    pytest.skip("other programs keep this machine busy")


@pytest.mark.parametrize("path", FILES_AT_LOAD, ids=file_id)
def test_a_file_that_replaces_what_measures_while_it_is_loaded_is_wrong_as_a_whole(klab, path):
    seen = klab("bench", path, "--seconds", "0.1", "--device", "cpu", "--json")
    assert seen.code == 1
    for result in seen.record["results"]:
        assert "while it was loaded: no time or verdict of it can be trusted" in result["derived"]["reason"]


def test_functions_of_torch_that_a_file_replaced_while_it_was_loaded_are_put_back(klab):
    impls = impls_but_compile(VERIFIER_AT_LOAD)
    seen = klab("bench", VERIFIER_AT_LOAD, "--impl", impls, "--seconds", "0.1", "--device", "cpu", "--json")
    assert seen.code == 1
    assert seen.result("half-the-time")["derived"]["reason"].startswith("values: error")
    assert seen.result("manual")["derived"]["status"] == "ok"
