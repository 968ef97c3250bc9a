"""Every hand-written implementation that runs without a GPU passes its battery, whatever inputs its op has."""

import os
import subprocess
import sys

import pytest

from kernellab.declaration.targets import shipped_names
from support.battery_parts import FAMILIES, hand_written_impls
from support.klab import HERE, SRC


def test_every_op_with_hand_written_implementations_has_a_family():
    ops = [name for name in shipped_names() if hand_written_impls(name)]
    assert sorted(name for relatives in FAMILIES.values() for name in relatives) == sorted(ops)


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
