"""The kernels with a flaw in benchmarks/flawed: each expects a rule that exists, and can be loaded."""

import json
from unittest import mock

import pytest
import torch

from kernellab.declaration.targets import load, resolve
from kernellab.explaining.rulebook import all_rules
from support.benchmarks import BENCHMARKS, load_script

SEEN, UNSEEN = (
    sorted(path.stem for path in (BENCHMARKS / folder).glob("*.py")) for folder in ("flawed", "flawed/unseen")
)


def test_every_file_has_an_expected_rule_that_exists():
    expected = load_script("flawed").EXPECTED
    assert sorted(expected) == SEEN
    assert len(SEEN) >= 12
    assert set(expected.values()) <= set(all_rules())


def test_kernels_that_the_rules_were_not_made_on_have_flaws_of_their_own():
    expected = json.loads((BENCHMARKS / "flawed" / "unseen" / "EXPECTED.json").read_text())
    assert sorted(expected) == UNSEEN
    assert not set(UNSEEN) & set(SEEN)
    assert len(set(expected.values())) == len(UNSEEN) >= 6
    assert set(expected.values()) <= set(all_rules())


@pytest.mark.parametrize("name", [*SEEN, *(f"unseen/{name}" for name in UNSEEN)])
def test_every_file_has_the_kernel_with_and_without_its_flaw(name):
    (op,) = load(resolve(str(BENCHMARKS / "flawed" / f"{name}.py"))).values()
    assert {"flawed", "fixed"} <= set(op.impls)


def test_the_prediction_is_compared_with_the_measurement_not_the_gain_that_was_corrected_by_it():
    evidence = {"what": "gain, predicted", "value": 9.0}
    finding = {"rule": "unfused-chain", "gain": 4.0, "sure": "measured", "evidence": [evidence]}
    flawed = {"impl": "flawed", "time_us": 40.0, "findings": [finding]}
    fixed = {"impl": "fixed", "time_us": 10.0, "findings": []}
    row = load_script("flawed").row("f", {"results": [flawed, fixed]}, "unfused-chain")
    assert (row["predicted_gain"], row["measured_gain"], row["within"]) == (9.0, 4.0, False)


@pytest.mark.parametrize("size", [0, 64, 192, 4096])
@pytest.mark.parametrize("tile", [(64, 64, 32), (128, 256, 64)])
def test_the_tiles_of_the_matmul_fill_every_declared_size(size, tile):
    module = load_script("flawed/no_tensor_cores")
    module.multiply = mock.MagicMock()
    module.launch(torch.empty(size, size, device="meta"), torch.empty(size, size, device="meta"), True, tile, 4)
    (grid,), *_ = module.multiply.__getitem__.call_args
    tiles = module.multiply[grid].call_args.args[-3:]
    assert all(t in (16, 32, 64, 128, 256) for t in tiles)  # powers of two, or Triton refuses them
    assert [grid[0] * tiles[0], grid[1] * tiles[1], size % tiles[2]] == [size, size, 0]
