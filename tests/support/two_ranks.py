"""A program: one of two processes that train a model together on the CPU, by DDP and then by FSDP.

    python two_ranks.py RANK STORE

It fails if the gradients are not those of one process, or if our kernels did not serve.
"""

from __future__ import annotations

import sys

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

from support.models import Model, gradients, make_batch, make_model
from support.serving import IN_MODEL, OPERATORS


def by_ddp(model: Model) -> nn.Module:
    return DistributedDataParallel(model)


def by_fsdp(model: Model) -> nn.Module:
    mesh = dist.device_mesh.init_device_mesh("cpu", (2,))
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def whole(gradient: Tensor) -> Tensor:
    return gradient.full_tensor() if isinstance(gradient, dist.tensor.DTensor) else gradient


def main(rank: int, store: str) -> None:
    called = set()
    for name, operator in OPERATORS.items():
        operator.call = lambda *args, n=name, c=operator.call: (called.add(n), c(*args))[1]
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
    x, target = make_batch(4)
    expected = gradients(make_model(), x, target)
    for wrap in (by_ddp, by_fsdp):
        called.clear()
        model = wrap(make_model())
        model(x[2 * rank : 2 * rank + 2], target[2 * rank : 2 * rank + 2]).backward()
        averaged = {name.removeprefix("module."): whole(p.grad) for name, p in model.named_parameters()}
        torch.testing.assert_close(averaged, expected)
        assert called == IN_MODEL, f"{wrap.__name__}: {called ^ IN_MODEL}"
    dist.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
