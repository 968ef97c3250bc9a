"""Flaw: a literal 1.0 inside a logarithm makes it a double logarithm: dozens of fp64 instructions per element.

Fixed: log1pf, without doubles.
"""

import torch

import kernellab as kl

THREADS = 256
doubles, floats = (kl.cuda.kernel("softplus.cu", f"row_means<{name}>") for name in ("Doubles", "Floats"))


@kl.op(
    args=dict(x=kl.tensor("M N")),
    reduces="N",
    dtypes=["float32"],
    cases=kl.cases(shape=[(8192, 8192)], dtype=["float32"], cpu=dict(shape=[(64, 256)], dtype=["float32"])),
)
def loss(x):
    """The logistic loss of negatives, averaged along the row."""
    return torch.nn.functional.softplus(x).mean(dim=-1)


def launch(kernel, x):
    x = x.contiguous()
    y = torch.empty(x.shape[0], dtype=x.dtype, device=x.device)
    if y.numel():
        kernel(x.shape[0], THREADS, x, y, x.shape[1])
    return y


def single(case):
    return case.dtype == "float32" or "float32 only"


loss.impl("flawed", kind="cuda", supports=single)(lambda x: launch(doubles, x))
loss.impl("fixed", kind="cuda", supports=single)(lambda x: launch(floats, x))
