"""What the guard catches while implementations are timed."""

import pytest

from support.klab import OPFILES

pytestmark = pytest.mark.clocked

CHEATS = {
    "caches-by-pointer": "compared values are wrong",
    "skips-every-second-call": "compared values are wrong",
    "lazy-after-the-tenth-call": "compared values are wrong",
    "mutates-its-input-later": "changed its input while it was timed",
    "returns-its-input-later": "returned the memory of its input x",
    "recompiles-per-call": "while timing",  # compiled in the timed region, or the limit of recompiles is hit
    "caches-by-value": "it caches results",
    "caches-copies-by-value": "times as long on inputs it has not seen",
    "patches-torch": "replaced torch.add",
}


def test_implementations_that_cheat_while_timed_are_caught_and_honest_ones_are_not(klab):
    seen = klab("bench", OPFILES / "cheats.py", "--seconds", "0.3", "--device", "cpu", "--json")
    assert seen.code == 1
    for impl, reason in CHEATS.items():
        derived = seen.result(impl)["derived"]
        assert derived["status"] == ("error" if impl.startswith("recompiles") else "wrong"), impl
        assert "while timing" in derived["reason"]
        assert reason in derived["reason"]
    assert "returned a Lazy, not a plain tensor" in seen.result("computes-when-looked-at")["derived"]["reason"]
    for impl in ("manual", "honest", "compile", "caches-by-version"):
        assert seen.result(impl)["derived"]["status"] == "ok", impl
        assert seen.result(impl)["derived"]["time"]["rounds"] >= 10
    # A cache keyed by version finds nothing. The least of each: whatever else this machine does comes on top.
    least = {n: min(seen.result(n)["times"][0]["samples_us"]) for n in ("honest", "caches-by-version")}
    assert least["caches-by-version"] > least["honest"] / 2
