"""Implementations that cheat are refused, and honest ones are not, on the GPU."""

import pytest

from support.cheats import (
    FILES,
    FILES_AT_LOAD,
    VERIFIER_AT_LOAD,
    assert_only_cheats_are_refused,
    file_id,
    impls_but_compile,
)

pytestmark = pytest.mark.gpu
LOADED_MACHINE_WILL_DO = ("tampering",)  # the others are found by how long they take, or must not be suspected of it


@pytest.mark.parametrize(
    "path",
    [p if p.stem in LOADED_MACHINE_WILL_DO else pytest.param(p, marks=pytest.mark.clocked) for p in FILES],
    ids=file_id,
)
def test_implementations_that_cheat_are_refused_and_honest_ones_are_not(klab, path):
    impls = () if path.stem in LOADED_MACHINE_WILL_DO else ("--impl", impls_but_compile(path))
    seen = klab("bench", path, *impls, "--shape", "4096x4096", "--seconds", "0.1", "--json")
    assert_only_cheats_are_refused(seen, device="cuda")
    if path.stem == "results":
        details = [guard["detail"] for guard in seen.result("honest-waits-for-the-gpu")["guards"]]
        assert not seen.result("honest")["guards"]
        assert any("held back" in detail for detail in details)
        assert any("waits for the GPU" in detail for detail in details)


@pytest.mark.parametrize("path", FILES_AT_LOAD, ids=file_id)
def test_files_that_replace_what_measures_while_they_are_loaded_are_wrong_as_a_whole(klab, path):
    seen = klab("bench", path, "--seconds", "0.1", "--json")
    assert seen.code == 1
    for result in seen.record["results"]:
        assert "while it was loaded: no time or verdict of it can be trusted" in result["derived"]["reason"]


def test_functions_of_torch_that_a_file_replaced_while_it_was_loaded_are_put_back(klab):
    seen = klab("bench", VERIFIER_AT_LOAD, "--seconds", "0.1", "--json")
    assert seen.code == 1
    assert seen.result("half-the-time")["derived"]["reason"].startswith("values: error")
    assert seen.result("manual")["derived"]["status"] == "ok"
