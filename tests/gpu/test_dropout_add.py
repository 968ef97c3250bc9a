"""Dropout with addition on a GPU: every kernel draws the mask of the reference, bit for bit."""

import pytest
import torch

import kernellab as kl
from kernellab.ops.philox import Stream, philox
from support.ops import DTYPES, INTERLEAVED, LAYOUTS

pytestmark = pytest.mark.gpu
OPTIONS = dict(p=0.5, seed=(1 << 40) + 3, offset=(1 << 33) + 1)


@pytest.mark.parametrize("dtype", DTYPES[:3], ids=str)
@pytest.mark.parametrize("impl", ["triton", "cuda"])
def test_the_mask_is_the_references_in_every_layout_and_in_both_passes(impl, dtype):
    for view in {**LAYOUTS, **INTERLEAVED}.values():
        x = view(torch.ones(20, 60, dtype=dtype, device="cuda")).detach().requires_grad_()
        residual = torch.zeros(x.shape, dtype=dtype, device="cuda")
        mask = Stream(OPTIONS["seed"], OPTIONS["offset"]).words(x.shape, x.device) < 1 << 31
        y = kl.ops.dropout_add[impl](x, residual, **OPTIONS)
        (gradient,) = torch.autograd.grad(y, x, torch.ones_like(y))
        assert torch.equal(y, (2 * mask).to(dtype))
        assert torch.equal(gradient, (2 * mask).to(dtype))


@pytest.mark.parametrize("impl", ["triton", "cuda"])
def test_indices_beyond_32_bits_have_their_own_words(impl):
    count, tail = (1 << 32) + 4099, 4099
    if torch.cuda.mem_get_info()[0] < 3 * 2 * count:
        pytest.skip("needs 26 GB of free memory")
    x = torch.ones(count, dtype=torch.bfloat16, device="cuda")
    y = kl.ops.dropout_add[impl](x, x, **OPTIONS)[-tail:]
    index = torch.arange(count - tail, count, device="cuda")
    seed, offset = ((number & 0xFFFFFFFF, number >> 32) for number in (OPTIONS["seed"], OPTIONS["offset"]))
    block = index // 4
    words = torch.stack(philox((block & 0xFFFFFFFF, block >> 32, *(torch.full_like(block, h) for h in offset)), seed))
    mask = words.gather(0, (index % 4)[None])[0] < 1 << 31
    assert torch.equal(y, (1 + 2 * mask).to(y.dtype))
