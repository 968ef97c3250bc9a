import dataclasses

import pytest

from kernellab.gpumodel.time_model import estimate_time
from support.subjects import GOOD_KERNEL, LIMIT_US, first_finding, kernel, subject

CODE = {**GOOD_KERNEL.instructions, "local_load": 100, "local_store": 100}
SPILLING = kernel(spill_bytes=800, stack_bytes=400, instructions=CODE)


def test_spills_gain_the_time_of_their_bytes():
    finding = first_finding(subject(SPILLING))
    assert finding.name == "spills"
    estimate = estimate_time(subject(SPILLING), SPILLING)
    assert finding.gain == pytest.approx((estimate.time_us_with(local=0.0) + estimate.local) / LIMIT_US, rel=0.05)


def test_a_headroom_near_the_estimate_is_attributed_to_the_spills():
    assert first_finding(subject(SPILLING, time_us=5 * LIMIT_US)).gain == pytest.approx(5.0)


@pytest.mark.parametrize(
    ("changes", "remedy"),
    [
        ({"kind": "cuda"}, "allow more registers (looser __launch_bounds__"),
        ({"kind": "cuda", "registers": 255}, "a thread cannot have more registers, so let it need fewer"),
        ({"kind": "triton"}, "use more warps (num_warps) or a smaller block"),
        ({"kind": "triton", "registers": 255}, "use more warps (num_warps) or a smaller block"),
        ({"kind": "triton", "threads": 1024}, "use a smaller block"),  # no block has more warps
        ({"kind": "triton", "config": {"maxnreg": 20}}, "raise maxnreg=20, or use more warps"),
    ],
)
def test_the_remedy_suits_the_language_and_the_launch(changes, remedy):
    assert first_finding(subject(dataclasses.replace(SPILLING, **changes))).do.startswith(remedy)
