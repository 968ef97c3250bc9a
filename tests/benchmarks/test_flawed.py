"""The kernels with a flaw in benchmarks/flawed: every one is held against a rule that exists, and can be loaded."""

import importlib.util
import json
import sys
from unittest import mock

import pytest
import torch

from kernellab.declaration.targets import load, resolve
from kernellab.explaining.rulebook import all_rules
from support.klab import HERE

BENCHMARKS = HERE.parent / "benchmarks"
FILES = sorted(path.stem for path in (BENCHMARKS / "flawed").glob("*.py"))
UNSEEN = sorted(path.stem for path in (BENCHMARKS / "flawed" / "unseen").glob("*.py"))


def script(name):
    spec = importlib.util.spec_from_file_location(name, BENCHMARKS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # where dataclasses look for it
    spec.loader.exec_module(module)
    return module


def test_every_file_has_an_expectation_and_every_expectation_a_rule():
    expected = script("flawed").EXPECTED
    assert sorted(expected) == FILES
    assert len(expected) >= 12
    assert {rule.replace("-", "_") for rule in expected.values()} <= set(all_rules())


def test_kernels_the_rules_were_not_made_on_are_expected_to_show_flaws_of_their_own():
    expected = json.loads((BENCHMARKS / "flawed" / "unseen" / "EXPECTED.json").read_text())
    assert sorted(expected) == UNSEEN
    assert not set(UNSEEN) & set(FILES)
    assert len(set(expected.values())) == len(UNSEEN) >= 6
    assert {rule.replace("-", "_") for rule in expected.values()} <= set(all_rules())


@pytest.mark.parametrize("name", [*FILES, *(f"unseen/{name}" for name in UNSEEN)])
def test_a_flawed_way_stands_beside_the_same_without_its_flaw(name):
    (op,) = load(resolve(str(BENCHMARKS / "flawed" / f"{name}.py"))).values()
    assert {"flawed", "fixed"} <= set(op.impls)


NCU = "\n".join(
    (
        "==PROF== Connected to process 1",
        '"ID","Kernel Name","launch__block_size","launch__grid_size","launch__registers_per_thread",'
        '"launch__waves_per_multiprocessor"',
        '"","","","","register/thread",""',
        '"0","map_flat","128","524,288","18","248.24"',
    )
)


def test_a_prediction_is_not_held_against_the_measurement_that_corrected_it():
    told = {"what": "gain, predicted", "value": 9.0}
    finding = {"rule": "unfused-chain", "gain": 4.0, "sure": "measured", "evidence": [told]}
    flawed = {"impl": "flawed", "time_us": 40.0, "findings": [finding]}
    found = script("flawed").row(
        "f", {"results": [flawed, {"impl": "fixed", "time_us": 10.0, "findings": []}]}, "unfused-chain"
    )
    assert (found["predicted_gain"], found["measured_gain"], found["within"]) == (9.0, 4.0, False)


def test_what_nsight_compute_prints_is_read_and_a_difference_found():
    case = {"dims": {"...": [8192], "N": 8192}, "dtype": "float32", "options": {}}
    ours = {"name": "map_flat", "case": case, "grid": [524288, 1, 1], "block": [128, 1, 1], "registers": 18}
    ours |= {"static_shared_bytes": 0, "dynamic_shared_bytes": 0, "occupancy": {"fraction": 1.0, "blocks_per_sm": 16}}
    module = script("facts_vs_ncu")
    module.sms = lambda: 132
    theirs = module.raw_page(NCU)
    assert theirs == [{"name": "map_flat", "threads": 128, "blocks": 524288, "registers": 18, "waves": 248.24}]
    assert all(row["equal"] for row in module.compared("gelu", [ours], theirs))
    wrong = module.compared("gelu", [{**ours, "registers": 20}], theirs)
    assert [row["fact"] for row in wrong if not row["equal"]] == ["registers"]
    assert module.raw_page("==ERROR== no kernels were profiled") == []


@pytest.mark.parametrize("size", [0, 64, 192, 4096])
@pytest.mark.parametrize("tile", [(64, 64, 32), (128, 256, 64)])
def test_the_tiles_of_a_product_fill_every_size_it_declares(size, tile):
    module = script("flawed/no_tensor_cores")
    module.multiply = mock.MagicMock()
    module.launch(torch.empty(size, size, device="meta"), torch.empty(size, size, device="meta"), True, tile, 4)
    (grid,), *_ = module.multiply.__getitem__.call_args
    tiles = module.multiply[grid].call_args.args[-3:]
    assert all(t in (16, 32, 64, 128, 256) for t in tiles)  # powers of two, or Triton refuses them
    assert [grid[0] * tiles[0], grid[1] * tiles[1], size % tiles[2]] == [size, size, 0]
