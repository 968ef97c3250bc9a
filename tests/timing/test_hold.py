"""The kernel that holds a stream back."""

import pytest

from kernellab.base.user_code import PACKAGE
from kernellab.build.cuda import kernel


@pytest.mark.bare
@pytest.mark.parametrize("arch", ["sm_75", "sm_90", "sm_120"])
def test_the_kernels_that_hold_a_stream_back_build_for_every_gpu(arch):
    for name in ("hold", "nothing"):
        assert len(kernel(PACKAGE / "timing" / "hold.cu", name).compile(arch).code) > 1000
