"""Further implementations of fused linear layers, to time beside the shipped ones: for benchmarks/linear.py.

Of linear_gelu, `separate-…` are PyTorch's linear layer, which is cuBLAS, and then a kernel for GeLU; the implementation
`torch` is that with PyTorch's own GeLU. `compile-max-autotune` may write the matmul in Triton and GeLU into it.

Of linear_cross_entropy, `torch-chunked` is PyTorch's own way without all logits in memory, from torch 2.13 on. It is
not a shipped implementation, because a gradient of its gradients is wrong and not refused (torch 2.13.0).
"""

import torch

import kernellab as kl
from kernellab.declaration.compiled import Compiled
from kernellab.ops.floats import has_gpu_kernel
from kernellab.ops.linear_cross_entropy import linear_cross_entropy
from kernellab.ops.linear_gelu import linear_gelu


def declare_separate(impl: str) -> None:
    def run(x, weight, bias=None, *, approximate="tanh"):
        return kl.ops.gelu[impl](torch.nn.functional.linear(x, weight, bias), approximate=approximate)

    linear_gelu.impl(f"separate-{impl}", kind=impl, supports=has_gpu_kernel)(run)


declare_separate("triton")
declare_separate("cuda")
linear_gelu.impl("compile-max-autotune")(Compiled(linear_gelu["torch"].fn, mode="max-autotune-no-cudagraphs"))


def _is_chunked(case):
    if not hasattr(torch.nn, "LinearCrossEntropyOptions"):
        return "needs torch 2.13"
    return case.label_smoothing == 0 or "has no label smoothing"


@linear_cross_entropy.impl("torch-chunked", supports=_is_chunked, grad_in_forward=True)
def _(x, weight, target, *, reduction="mean", label_smoothing=0.0, ignore_index=-100):
    return torch.nn.functional.linear_cross_entropy(
        x,
        weight,
        target,
        reduction=reduction,
        ignore_index=ignore_index,
        options=torch.nn.LinearCrossEntropyOptions(),
    )
