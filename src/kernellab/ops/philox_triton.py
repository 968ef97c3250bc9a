"""Philox4x32-10 in Triton, random words from a seed, an offset and an element's index: see philox.py."""

import triton
import triton.language as tl


@triton.jit
def words_along(seed, offset, first, COUNT: tl.constexpr, ACCESS: tl.constexpr, ALIGNED: tl.constexpr = False):
    """The words of COUNT neighbours from index `first` on, a multiple of 4: four elements share a counter. A column
    `first` gives a row of words for each of its elements.

    ACCESS, 4 or 8: how many neighbours a thread loads at once. It draws the words of just these, so that none has to be
    passed from thread to thread. ALIGNED: `first` is one number, a multiple of COUNT, which is a power of 2. No carry
    then reaches the second word of a counter, and half of the first two rounds is computed once for all.
    """
    ahead = tl.arange(0, COUNT // ACCESS) * (ACCESS // 4)
    if ALIGNED:
        low, high = halves(first // 4)
        low += ahead.to(tl.uint32)
    else:
        low, high = halves(first // 4 + ahead)
    c0, c1, c2, c3 = block_words(seed, offset, low, high)
    if ACCESS == 8:
        # `first` is a multiple of 8, so this is the counter that follows.
        d0, d1, d2, d3 = block_words(seed, offset, low | 1, high)
        c0, c1, c2, c3 = tl.interleave(c0, d0), tl.interleave(c1, d1), tl.interleave(c2, d2), tl.interleave(c3, d3)
    return tl.interleave(tl.interleave(c0, c2), tl.interleave(c1, c3))


@triton.jit
def words_at(seed, offset, index):
    """The words of elements at any indices: one of the four of each counter."""
    low, high = halves(index // 4)
    c0, c1, c2, c3 = block_words(seed, offset, low, high)
    low, high = tl.where(index % 2 == 0, c0, c1), tl.where(index % 2 == 0, c2, c3)
    return tl.where(index % 4 < 2, low, high)


@triton.jit
def block_words(seed, offset, low, high):
    """The four words of each counter; (low, high) are its lower half, `offset` its upper half."""
    c0, c1 = low, high
    c2, c3 = halves(offset)
    k0, k1 = halves(seed)
    for _ in tl.static_range(10):
        # One multiplication gives both words of a product.
        a, b = c0.to(tl.uint64) * 0xD2511F53, c2.to(tl.uint64) * 0xCD9E8D57
        c0, c1 = (b >> 32).to(tl.uint32) ^ c1 ^ k0, b.to(tl.uint32)
        c2, c3 = (a >> 32).to(tl.uint32) ^ c3 ^ k1, a.to(tl.uint32)
        k0 = tl.add(k0, 0x9E3779B9, sanitize_overflow=False)
        k1 = tl.add(k1, 0xBB67AE85, sanitize_overflow=False)
    return c0, c1, c2, c3


@triton.jit
def halves(number):
    """The lower and the upper word of 64 bits. A number that is small may come as int32."""
    wide = number.to(tl.int64)
    return wide.to(tl.uint32), (wide >> 32).to(tl.uint32)
