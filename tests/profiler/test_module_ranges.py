"""A range for every module of a model: forward and backward are marked, results stay the same."""

import pickle

import torch

import kernellab as kl
from support.recordings import profiled_names


class Residual(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(4, 4)

    def forward(self, x):
        return (x + self.inner(x)).relu()


def gradients(model, x):
    model.zero_grad()
    model(x).sum().backward()
    return [p.grad.clone() for p in model.parameters()]


def test_every_module_is_marked_forward_and_backward_and_nothing_else_changes():
    model, x = torch.nn.Sequential(Residual(), torch.nn.GELU()), torch.randn(3, 4)
    before = gradients(model, x)
    ranges = kl.auto_ranges(model)
    after: list[torch.Tensor] = []
    names = profiled_names(lambda: after.extend(gradients(model, x)))
    paths = ("Sequential", "0", "0.inner", "1")
    assert set(paths) <= set(names)
    # The residual's own addition and ReLU belong to the module itself, those of the Linear to the Linear.
    assert {"0.backward", "0.inner.backward", "1.backward"} <= set(names)
    assert names.count("0.backward") == 2
    assert all(torch.equal(a, b) for a, b in zip(before, after, strict=True))
    assert not set(paths) & set(profiled_names(lambda: ranges.remove() or gradients(model, x)))


def test_marked_models_work_with_ddp():
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    try:
        names, before, after = _replicated()
    finally:
        torch.distributed.destroy_process_group()
    assert {"module.inner", "module.inner.backward"} <= set(names)
    assert all(torch.equal(a, b) for a, b in zip(before, after, strict=True))


def _replicated():
    """A separate function, because the replica must be freed before the group is, or torch may deadlock."""
    model, x = torch.nn.parallel.DistributedDataParallel(Residual()), torch.randn(3, 4)
    before = gradients(model, x)
    after: list[torch.Tensor] = []
    with kl.auto_ranges(model):
        names = profiled_names(lambda: after.extend(gradients(model, x)))
    return names, before, after


def test_a_marked_model_can_be_saved_and_compiled():
    model, x = torch.nn.Sequential(Residual(), torch.nn.GELU()), torch.randn(3, 4)
    expected = model(x)
    kl.auto_ranges(model)
    assert torch.equal(pickle.loads(pickle.dumps(model))(x), expected)
    assert torch.equal(torch.compile(model, fullgraph=True, backend="eager")(x), expected)
