"""The points of a saw-tooth show every drop, and few of them suffice for any grid."""

import itertools

import pytest

from kernellab.gpumodel.occupancy import occupancy
from kernellab.gpumodel.wave_curve import wave_curve
from kernellab.gpumodel.waves import waves
from kernellab.machine.chips import chip

H200 = chip("sm_90")
SMS = 132


def test_each_point_is_what_the_model_says_and_each_drop_has_both_sides():
    fits = occupancy(H200, 128, 32)
    curve = wave_curve(5 * SMS, SMS, fits, H200)
    assert curve == [waves(point.blocks, SMS, fits, H200) for point in curve]
    by_blocks = {point.blocks: point.efficiency for point in curve}
    for tooth in range(1, 5):
        assert by_blocks[tooth * SMS] == 1
        assert by_blocks[tooth * SMS + 1] < 0.55 + 0.1 * tooth
    assert min(by_blocks) == 1
    assert max(by_blocks) >= 5 * SMS


@pytest.mark.parametrize("bound", ["compute", "latency"])
def test_between_neighbouring_points_nothing_is_hidden(bound):
    """On a straight line between two points lie the grids between them, in the part where every tooth is drawn."""
    fits = occupancy(H200, 256, 64)
    curve = wave_curve(12 * SMS, SMS, fits, H200, bound=bound)
    for left, right in itertools.pairwise(curve):
        for blocks in range(left.blocks + 1, right.blocks):
            share = (blocks - left.blocks) / (right.blocks - left.blocks)
            line = left.efficiency + share * (right.efficiency - left.efficiency)
            assert waves(blocks, SMS, fits, H200, bound=bound).efficiency == pytest.approx(line, abs=1e-9)


@pytest.mark.parametrize("bound", ["compute", "latency", "memory"])
@pytest.mark.parametrize("largest", [1, SMS, 2**31 - 1, 2**63])
def test_any_grid_has_few_points(bound, largest):
    curve = wave_curve(largest, SMS, occupancy(H200, 1024, 64), H200, bound=bound)
    assert len(curve) < 1000
    assert curve[-1].blocks >= largest
    assert all(0 < point.efficiency <= 1 for point in curve)


def test_clusters_stay_whole_and_leave_sms_unused():
    curve = wave_curve(4 * SMS, SMS, occupancy(H200, 128, 32), H200, cluster=8)
    assert all(point.blocks % 8 == 0 for point in curve)
    assert max(point.efficiency for point in curve) == pytest.approx(128 / 132)
