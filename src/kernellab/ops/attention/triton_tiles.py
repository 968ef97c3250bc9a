"""What the kernels of both passes share: which program does which tile, which tiles there are, loads, masks, dropout.

A kernel's own tile stays in registers and shared memory, and a loop walks along its partners: for a tile of queries the
keys that they see, for a tile of keys the queries that see them.
"""

import triton
import triton.language as tl

from kernellab.ops.philox_triton import words_along

# Numbers for which no kernel is compiled anew when they are 1 or a multiple of 16. What helps the compiler is constant:
# D, and STEP, by which strides are divided.
_TENSORS = ("q", "k", "v", "y", "upstream", "dq", "dk", "dv")
UNSPECIALIZED = [
    *(f"{tensor}_{dim}" for tensor in _TENSORS for dim in ("batch", "head", "row")),
    *("lse_batch", "lse_head", "heads", "queries", "keys", "rows", "first", "last", "tiles", "together", "numbers"),
    *("seed", "stream_offset", "last_kept", "pair_rows", "padded"),
]

LOG2E = tl.constexpr(1.4426950408889634)
LN2 = tl.constexpr(0.6931471805599453)


@triton.jit
def tile_and_head(tiles, together, DESCENDING: tl.constexpr):
    """The tile and the head of this program.

    Programs that run at the same time should share keys and values in the L2 cache: `together` heads come one after the
    other. Among their tiles the longest come first, or the others would wait for the last of them: these are the last
    tiles of queries (DESCENDING), and the first of keys.
    """
    program = tl.program_id(0)
    heads = tl.num_programs(0) // tiles
    first_head = program // (tiles * together) * together
    place = program - first_head * tiles
    in_group = tl.minimum(heads - first_head, together)
    tile = place // in_group
    if DESCENDING:
        tile = tiles - 1 - tile
    return tile, first_head + place % in_group


@triton.jit
def partners(
    at, count, first, last, HAS_FIRST: tl.constexpr, HAS_LAST: tl.constexpr, OWN: tl.constexpr, STEP: tl.constexpr
):
    """The partners of the OWN places from `at` on, among `count`, in tiles of STEP: where they begin and end; and from
    where to where all places see all partners of a tile. Place i sees partner j where first ≤ j − i ≤ last."""
    begin, end = 0, count
    whole, whole_end = 0, count // STEP * STEP
    if HAS_FIRST:
        begin = tl.maximum(at + first, 0) // STEP * STEP
        whole = tl.cdiv(tl.maximum(at + OWN - 1 + first, 0), STEP) * STEP
    if HAS_LAST:
        end = tl.minimum(at + OWN + last, count)
        whole_end = tl.minimum(tl.maximum(at + last + 1, 0) // STEP * STEP, whole_end)
    return begin, whole, whole_end, end


@triton.jit
def hide(x, i, j, first, last, keys, value, HAS_FIRST: tl.constexpr, HAS_LAST: tl.constexpr, HAS_TAIL: tl.constexpr):
    """x, with the value where query i does not see key j: one are the rows of the tile, the others its columns.
    HAS_TAIL: some keys do not exist."""
    if HAS_FIRST:
        x = tl.where(j - i >= first, x, value)
    if HAS_LAST:
        x = tl.where(j - i <= last, x, value)
    if HAS_TAIL:
        x = tl.where(j < keys, x, value)
    return x


@triton.jit
def head_of(x, batch, head, start, batch_stride, head_stride, row_stride, PACKED: tl.constexpr):
    """Where a head begins: that of a batch, or where PACKED, that of the sequence that begins at row `start`."""
    if PACKED:
        x += start.to(tl.int64) * row_stride
    else:
        x += batch * batch_stride
    return x + head.to(tl.int64) * head_stride


@triton.jit
def load_tile(x, at, count, row_stride, MASKED: tl.constexpr, ROWS: tl.constexpr, D: tl.constexpr, HEAD: tl.constexpr):
    """ROWS rows of a head from row `at` on, as [ROWS, HEAD]: 0 beyond D columns, where MASKED beyond `count` rows."""
    lane, column = tl.arange(0, ROWS), tl.arange(0, HEAD)
    # A head may span more than 2³¹ elements.
    start = (tl.zeros([], tl.int64) + at) * row_stride
    pointers = x + start + lane.to(tl.int64)[:, None] * row_stride + column[None, :]
    if MASKED and HEAD != D:
        tile = tl.load(pointers, mask=(lane < count - at)[:, None] & (column < D)[None, :], other=0.0)
    elif MASKED:
        tile = tl.load(pointers, mask=(lane < count - at)[:, None], other=0.0)
    elif HEAD != D:
        tile = tl.load(pointers, mask=(column < D)[None, :], other=0.0)
    else:
        tile = tl.load(pointers)
    return tile


@triton.jit
def load_partner(
    x, first_row, first_column, at, count, row_stride, MASKED: tl.constexpr, ROWS: tl.constexpr, D: tl.constexpr,
    HEAD: tl.constexpr, DESCRIBED: tl.constexpr,
):  # fmt: skip
    """As `load_tile`. DESCRIBED: x is a descriptor for the copy engine, of a matrix in which the head begins at
    (first_row, first_column)."""
    if DESCRIBED:
        tile = x.load([first_row + at, first_column])
    else:
        tile = load_tile(x, at, count, row_stride, MASKED, ROWS, D, HEAD)
    return tile


@triton.jit
def load_numbers(x, first, at, count, other, MASKED: tl.constexpr, ROWS: tl.constexpr, DESCRIBED: tl.constexpr):
    """ROWS numbers, one for each row from `at` on; `other` where MASKED beyond `count`. They begin at x + first."""
    if DESCRIBED:
        numbers = x.load([first + at])
    elif MASKED:
        lane = tl.arange(0, ROWS)
        numbers = tl.load(x + first + at + lane, mask=lane < count - at, other=other)
    else:
        numbers = tl.load(x + first + at + tl.arange(0, ROWS))
    return numbers


@triton.jit
def store_tile(x, value, at, count, row_stride, ROWS: tl.constexpr, D: tl.constexpr, HEAD: tl.constexpr):
    """The rows of `load_tile` back to memory."""
    lane, column = tl.arange(0, ROWS), tl.arange(0, HEAD)
    start = (tl.zeros([], tl.int64) + at) * row_stride
    pointers = x + start + lane.to(tl.int64)[:, None] * row_stride + column[None, :]
    mask = (lane < count - at)[:, None] & (column < D)[None, :]
    tl.store(pointers, value.to(x.dtype.element_ty), mask=mask)


@triton.jit
def add_tile(x, value, at, count, row_stride, ROWS: tl.constexpr, D: tl.constexpr, HEAD: tl.constexpr):
    """As `store_tile`, but adds to what is there, by atomics."""
    lane, column = tl.arange(0, ROWS), tl.arange(0, HEAD)
    start = (tl.zeros([], tl.int64) + at) * row_stride
    pointers = x + start + lane.to(tl.int64)[:, None] * row_stride + column[None, :]
    tl.atomic_add(pointers, value, mask=(lane < count - at)[:, None] & (column < D)[None, :], sem="relaxed")


@triton.jit
def pairs_of(bias, i, j, row_stride, column_stride):
    """Pointers to the pairs of queries i and keys j, of which one are the rows of a tile, the others its columns."""
    return bias + i.to(tl.int64) * row_stride + j.to(tl.int64) * column_stride


@triton.jit
def dropout_factors(seed, stream_offset, last_kept, factor, row_of_pairs, at, padded, KEYS: tl.constexpr):
    """What dropout multiplies the weights by, as [queries, KEYS]: of the queries whose pairs are in these rows, counted
    through all heads, and the keys from `at` on. A row has `padded` words, a multiple of 4."""
    words = words_along(seed, stream_offset, (row_of_pairs * padded + at)[:, None], KEYS, 4)
    return tl.where(words <= last_kept.to(tl.uint32), factor, 0.0)
