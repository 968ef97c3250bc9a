"""A kernel that takes a grid of any size, in Triton's interpreter."""

import subprocess
import sys

from support.klab import klab_env


def test_any_grid_squares_every_element():
    code = (
        "import torch\nfrom kernellab.workloads.grids import square_by_grid\n"
        "for n in (1, 300, 1025):\n"
        "    for blocks in (1, 3, 64):\n"
        "        x = torch.randn(n)\n"
        "        assert torch.equal(square_by_grid(x, blocks, 32), x * x), (n, blocks)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env={**klab_env(), "TRITON_INTERPRET": "1"})
