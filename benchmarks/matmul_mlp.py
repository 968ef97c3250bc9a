"""The MLP, compiled by torch.compile with its defaults and with max-autotune, as two implementations of one op.

    klab bench benchmarks/matmul_mlp.py --pass forward,backward

`python benchmarks/matmul.py OUT` runs this. Both are compiled without CUDA graphs: what differs is which kernels
compute the products, and what is fused with them.
"""

import torch

import kernellab as kl
from kernellab.declaration.compiled import Compiled


def weights(shape, dtype, device, generator):
    """So large that activations neither grow nor vanish from layer to layer."""
    x = torch.randn(shape, dtype=torch.float32, device=device, generator=generator)
    return x.div(shape[-1] ** 0.5).to(dtype)


@kl.op(
    args=dict(x=kl.tensor("B D"), w=kl.tensor("L D E", values=weights), b=kl.tensor("L E", values=weights)),
    dims=dict(E="D"),
    where=lambda case: case.D == case.E,
    reduces="D E",
    cost=lambda x, w, b: kl.Cost(read=[x, w, b], write=[x], flops={"matmul": 2 * x.shape[0] * w.numel()}),
    cases=kl.cases(
        B=[128, 8192],
        D=[1024, 4096],
        L=[8],
        dtype=["bfloat16"],
        cpu=dict(B=[16], D=[64], L=[2], dtype=["float32"]),
    ),
)
def mlp(x, w, b):
    """`L` times Linear(D, D) → GeLU, exact, as `klab profile mlp` trains it."""
    for weight, bias in zip(w, b, strict=True):
        x = torch.nn.functional.gelu(torch.nn.functional.linear(x, weight, bias))
    return x


mlp.impl("compile-max-autotune")(
    Compiled(mlp.reference, options={"max_autotune": True, "coordinate_descent_tuning": True, "fx_graph_cache": False})
)
