"""Further implementations of linear_gelu, to time beside the shipped ones: for benchmarks/linear.py.

`separate-…` are PyTorch's linear layer, which is cuBLAS, and then a kernel for GeLU; the implementation `torch` is that
with PyTorch's own GeLU. `compile-max-autotune` may write the matmul in Triton and GeLU into it.
"""

import torch

import kernellab as kl
from kernellab.declaration.compiled import Compiled
from kernellab.ops.floats import has_gpu_kernel
from kernellab.ops.linear_gelu import linear_gelu


def declare_separate(impl: str) -> None:
    def run(x, weight, bias=None, *, approximate="tanh"):
        return kl.ops.gelu[impl](torch.nn.functional.linear(x, weight, bias), approximate=approximate)

    linear_gelu.impl(f"separate-{impl}", kind=impl, supports=has_gpu_kernel)(run)


declare_separate("triton")
declare_separate("cuda")
linear_gelu.impl("compile-max-autotune")(Compiled(linear_gelu["torch"].fn, mode="max-autotune-no-cudagraphs"))
