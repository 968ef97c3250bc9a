"""The CUDA kernels that measure bandwidth and grids."""

import pytest

from kernellab.build.cuda import kernel
from support.klab import SRC


@pytest.mark.parametrize("arch", ["sm_75", "sm_90"])
@pytest.mark.parametrize(("file", "name"), [("busy.cu", "busy"), ("reading.cu", "read_all")])
def test_a_kernel_that_measures_compiles(file, name, arch):
    assert kernel(SRC / "kernellab" / "timing" / file, name).compile(arch).code
