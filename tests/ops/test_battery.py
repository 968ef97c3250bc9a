"""Every hand-written implementation that runs without a GPU passes a part of its battery; `make exhaustive` has it all.

The part has everything that the battery varies, but not every combination: relatives have different ones.
"""

import os
import subprocess
import sys

import pytest

from kernellab.declaration.targets import shipped_names
from support.battery_parts import FAMILIES, choose, features, hand_written_impls, parts_for, quick_battery
from support.klab import HERE, SRC


def test_every_op_with_hand_written_implementations_has_a_family():
    ops = [name for name in shipped_names() if hand_written_impls(name)]
    assert sorted(name for relatives in FAMILIES.values() for name in relatives) == sorted(ops)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_part_has_all_that_the_battery_varies_and_relatives_have_different_ones(family):
    relatives = FAMILIES[family]
    parts = parts_for(relatives)
    for part, name in enumerate(relatives):
        for impl in hand_written_impls(name):
            trials = quick_battery(name, impl)
            chosen = choose(trials, part, parts)
            assert set().union(*map(features, chosen)) == set().union(*map(features, trials))
            assert {trial.key for trial in trials[part::parts]} <= {trial.key for trial in chosen}
            assert len(chosen) == len({trial.key for trial in chosen})


@pytest.mark.parametrize("family", FAMILIES)
def test_hand_written_implementations_pass_their_part_of_a_quick_battery(family):
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "support.battery_parts", family],
        env={**os.environ, "PYTHONPATH": f"{SRC}{os.pathsep}{HERE}"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.stdout == "all passed\n", done.stdout[-3000:] + done.stderr[-3000:]
