"""Random words in Triton, in its interpreter, against the reference. A program of its own: kernels need a file."""

import torch

from kernellab.interpreter.emulation import enable_interpreter

enable_interpreter()  # before triton is imported

import triton  # noqa: E402
import triton.language as tl  # noqa: E402

from kernellab.ops.philox import philox  # noqa: E402
from kernellab.ops.philox_triton import words_along, words_at  # noqa: E402

ONES = 0xFFFFFFFF


@triton.jit
def draw(along4, along8, at, own, seed, offset, first, COUNT: tl.constexpr):
    """The words of COUNT elements, by each function and by Triton's own generator."""
    i = tl.arange(0, COUNT)
    index = first + i
    tl.store(along4 + i, words_along(seed, offset, first, COUNT, 4).to(tl.int64))
    tl.store(along8 + i, words_along(seed, offset, first, COUNT, 8).to(tl.int64))
    tl.store(at + i, words_at(seed, offset, index).to(tl.int64))
    block, upper, zero = index // 4, offset.to(tl.int64), (index * 0).to(tl.uint32)
    c0, c1, c2, c3 = tl.philox(
        seed,
        block.to(tl.uint32),
        (block >> 32).to(tl.uint32),
        zero + upper.to(tl.uint32),
        zero + (upper >> 32).to(tl.uint32),
    )
    low, high = tl.where(index % 2 == 0, c0, c1), tl.where(index % 2 == 0, c2, c3)
    tl.store(own + i, tl.where(index % 4 < 2, low, high).to(tl.int64))


for seed, offset, first in ((0, 0, 0), (7, 3, 64), (-5, (1 << 40) + 9, (1 << 36) + 8)):
    drawn = [torch.empty(64, dtype=torch.int64) for _ in range(4)]
    draw[(1,)](*drawn, seed, offset, first, 64)
    index = first + torch.arange(64)
    upper = [torch.full_like(index, half) for half in (offset & ONES, offset >> 32 & ONES)]
    words = philox((index // 4 & ONES, index // 4 >> 32, *upper), (seed & ONES, seed >> 32 & ONES))
    expected = torch.stack(words).gather(0, (index % 4)[None])[0]
    assert all(torch.equal(words, expected) for words in drawn), (seed, offset, first)
print("all agree")
