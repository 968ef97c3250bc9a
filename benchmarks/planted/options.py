"""Kernels without the first value of an option: norms of rows, "l1" not among them."""

import functools

import torch

import kernellab as kl


@kl.op(
    args=dict(x=kl.tensor("M N")),
    options=dict(mode=["l1", "l2", "max"], keep=[True, False]),
    reduces="N",
    where=lambda c: c.N > 0,
    cases=kl.cases(M=[64], N=[300], dtype=["float32", "bfloat16"]),
)
def norm(x, *, mode="l1", keep=True):
    if mode == "max":
        return x.abs().amax(-1, keepdim=keep)
    return x.abs().sum(-1, keepdim=keep) if mode == "l1" else x.square().sum(-1, keepdim=keep).sqrt()


def compute(fault, x, *, mode="l1", keep=True):
    y = x.float()
    if fault == "strides":
        y = torch.as_strided(x, x.shape, (x.shape[1], 1)).float()
    if mode == "max":
        size = y if fault == "signed" else y.abs()
        if fault == "first-128-rows":
            size = torch.where(torch.arange(x.shape[0])[:, None] < 128, size, size[:, :1])
        if fault == "late-columns":
            size = size[:, :4096]
        if fault == "nan":
            size = size.nan_to_num(0.0)
        out = size.amax(-1)
    else:
        out = y.square().sum(-1).sqrt()
        if fault == "one-column" and x.shape[1] == 1:
            out = out * 0
        if fault == "not-kept" and not keep:
            out = out * 1.01
    return (out[:, None] if keep else out).to(x.dtype)


FAULTS = ("strides", "signed", "first-128-rows", "late-columns", "nan", "one-column", "not-kept")
for name in ("right", *(f"wrong-{fault}" for fault in FAULTS)):
    norm.impl(name, supports=lambda c: c.mode != "l1" or "no l1")(
        functools.partial(compute, name.removeprefix("wrong-"))
    )
