"""bfloat16 in numpy."""

import torch

from kernellab.interpreter.bfloat16 import from_bits, to_bits


def as_tensor(bits):
    return torch.from_numpy(bits.view("int16")).view(torch.bfloat16)


def test_bfloat16_is_rounded_to_nearest_even():
    x = torch.cat([torch.randn(10_000), torch.tensor([0.0, -0.0, float("inf"), -float("inf"), 3.4e38, 1e-40])])
    assert torch.equal(as_tensor(to_bits(x.numpy())), x.bfloat16())
    assert as_tensor(to_bits(torch.tensor([float("nan")]).numpy())).isnan().all()


def test_widening_is_exact_for_every_number():
    bits = torch.arange(1 << 16).to(torch.uint16).numpy()
    wide = torch.from_numpy(from_bits(bits))
    exact = as_tensor(bits).float()
    assert torch.equal(wide.isnan(), exact.isnan())
    assert torch.equal(wide.nan_to_num(), exact.nan_to_num())
