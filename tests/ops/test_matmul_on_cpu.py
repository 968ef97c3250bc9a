"""The kernels of matmul in CUDA C++, run on the CPU: tensor cores, copies that run by themselves, and every step."""

import ctypes

import pytest
import torch

import kernellab as kl
from kernellab.ops.matmul.cuda import multiply
from support.products import assert_is_product, operands
from support.simt import Gpu, compile_with_headers, run_on_cpu

FEW_SMS, MANY_SMS, OLD = Gpu((9, 0), sms=1), Gpu((9, 0), sms=1000), Gpu((7, 5), sms=1)
# (GPU, rows, depth, columns, dtype, layouts, tf32). Few SMs get large tiles. Sizes end inside a tile; a depth of 330
# fills each of four places of tiles again.
PRODUCTS = [
    (FEW_SMS, 200, 72, 264, "bfloat16", ("rows", "rows"), False),
    (FEW_SMS, 136, 40, 264, "float32", ("columns", "rows"), True),
    (MANY_SMS, 70, 330, 72, "bfloat16", ("rows", "rows"), False),
    (MANY_SMS, 70, 100, 65, "float16", ("columns", "columns"), False),
    (MANY_SMS, 65, 72, 72, "bfloat16", ("columns", "misaligned rows"), False),
    (MANY_SMS, 1, 65, 70, "float16", ("misaligned rows", "columns"), False),
    (MANY_SMS, 70, 72, 72, "float32", ("rows", "columns"), True),
    (MANY_SMS, 70, 36, 72, "float32", ("columns", "rows"), True),
    (MANY_SMS, 67, 35, 3, "float32", ("misaligned columns", "misaligned columns"), True),
    (FEW_SMS, 132, 40, 140, "float32", ("rows", "rows"), False),
    (FEW_SMS, 132, 20, 130, "float32", ("columns", "misaligned columns"), False),
    (MANY_SMS, 70, 24, 72, "float32", ("misaligned rows", "columns"), False),
    (OLD, 130, 40, 136, "bfloat16", ("columns", "columns"), False),
    (OLD, 130, 20, 131, "float16", ("rows", "misaligned rows"), False),
]
STEPS = ("naive", "coalesced", "shared", "registers", "vector", "pipeline")
TENSOR_STEPS = ("tensor", "stages", "swizzle")


@pytest.fixture(autouse=True)
def unwritten_memory_is_nan(monkeypatch):
    monkeypatch.setattr(torch.utils.deterministic, "fill_uninitialized_memory", True)
    torch.use_deterministic_algorithms(True, warn_only=True)
    yield
    torch.use_deterministic_algorithms(False)


def test_matrices_of_any_size_layout_and_alignment():
    calls, given = [], []
    for gpu, rows, depth, cols, dtype, layouts, tf32 in PRODUCTS:
        a, b = operands(rows, depth, cols, getattr(torch, dtype), layouts)
        given.append((a, b, tf32))
        calls.append((gpu, lambda a=a, b=b, tf32=tf32: multiply(a, b, tf32=tf32)))
    for (a, b, tf32), c in zip(given, run_on_cpu(*calls), strict=True):
        assert_is_product(c, a, b, tf32=tf32)


def test_every_step_computes_the_product():
    """At sizes where rows are aligned, and where they are not."""
    calls, given = [], []
    for step in (*STEPS, *TENSOR_STEPS):
        dtype = "bfloat16" if step in TENSOR_STEPS else "float32"
        for sizes in ((136, 200, 264),) if step in TENSOR_STEPS else ((132, 36, 136), (33, 35, 37)):
            a, b = operands(*sizes, getattr(torch, dtype))
            given.append((a, b))
            calls.append((FEW_SMS, lambda a=a, b=b, step=step: kl.ops.matmul[f"cuda-{step}"](a, b)))
    for (a, b), c in zip(given, run_on_cpu(*calls), strict=True):
        assert_is_product(c, a, b)


def test_the_backward_pass_takes_transposed_views():
    a, b = (x.requires_grad_() for x in operands(65, 70, 72, torch.bfloat16))
    upstream = torch.randn(65, 72).bfloat16()
    call = lambda: torch.autograd.grad(kl.ops.matmul["cuda"](a, b), (a, b), upstream)  # noqa: E731
    ((for_a, for_b),) = run_on_cpu((MANY_SMS, call))
    a, b = a.detach(), b.detach()
    assert_is_product(for_a, upstream, b.t())
    assert_is_product(for_b, a.t(), upstream)


HARNESS = """
#include "ops/matmul/tensor_tiles.cuh"

// Whether each tile is taken by one block.
extern "C" bool takes_all(int64_t rows, int64_t cols) {
  std::vector<int> taken(rows * cols);
  for (blockIdx.x = 0; blockIdx.x < rows * cols; blockIdx.x++) {
    const TilePlace tile = tile_of_block<8>(rows, cols);
    if (tile.row < 0 || tile.row >= rows || tile.col < 0 || tile.col >= cols) return false;
    taken[tile.row * cols + tile.col]++;
  }
  return std::count(taken.begin(), taken.end(), 1) == rows * cols;
}

// The most often that a bank of 16 bytes is read in one go: 8 rows of a tile, all in the same chunk.
template <class Tile>
int most_reads() {
  int most = 0;
  for (int row = 0; row + 8 <= Tile::ROWS; row += 8)
    for (int chunk = 0; chunk < Tile::CHUNKS; chunk++) {
      int reads[8] = {};
      for (int i = 0; i < 8; i++) reads[Tile::chunk_at(row + i, chunk) / Tile::WIDTH % 8]++;
      most = std::max(most, *std::max_element(reads, reads + 8));
    }
  return most;
}
// The same where words are read one by one: 8 lines of 4 depths, in 32 banks.
template <class Tile>
int most_word_reads() {
  int most = 0;
  for (int line = 0; line + 8 <= Tile::CHUNKS * Tile::WIDTH; line += 8)
    for (int depth = 0; depth + 4 <= Tile::ROWS; depth += 4) {
      int reads[32] = {};
      for (int i = 0; i < 32; i++) reads[Tile::element_at(depth + i % 4, line + i / 4) % 32]++;
      most = std::max(most, *std::max_element(reads, reads + 32));
    }
  return most;
}
extern "C" int conflicts() {
  return std::max({most_reads<Tile<__half, 128, true>>(), most_reads<Tile<__half, 256, false>>(),
                   most_reads<Tile<__half, 64, false>>(), most_reads<Tile<float, 128, true>>(),
                   most_word_reads<Tile<float, 128, false>>(), most_reads<Tile<__half, 128, true, false>>()});
}
"""


@pytest.fixture(scope="module")
def harness():
    return compile_with_headers(HARNESS)


def test_every_tile_of_the_result_is_taken_once(harness):
    for rows in (1, 7, 8, 9, 16, 21):
        for cols in (1, 2, 5):
            assert harness.takes_all(ctypes.c_int64(rows), ctypes.c_int64(cols)), (rows, cols)


def test_lanes_read_tiles_from_different_banks(harness):
    assert harness.conflicts() == 1


COPIES = """
#include "ops/mma.cuh"

// Copies 16 bytes; `wait` and `commit` may be left out.
__global__ void copy(const float* from, float* to, int64 commit, int64 wait, int64 count) {
  extern __shared__ float shared[];
  float* const shared_ = simt::block->dynamic.data();
  copy_async(shared_ + 4 * threadIdx.x, from + 4 * threadIdx.x, count);
  if (commit) copy_commit();
  if (wait) copy_wait<0>();
  __syncthreads();
  const int other = blockDim.x - 1 - threadIdx.x;
  for (int i = 0; i < 4; i++) to[4 * other + i] = shared_[4 * other + i];
}
extern "C" void run(const float* from, float* to, int64_t commit, int64_t wait, int64_t count) {
  const simt::Launch how = {{1, 1, 1}, {32, 1, 1}, 1, 512};
  const uint64_t args[] = {uint64_t(from), uint64_t(to), uint64_t(commit), uint64_t(wait), uint64_t(count)};
  simt::launch(&copy, how, args);
}
"""


def test_a_copy_is_there_only_after_it_was_waited_for():
    library = compile_with_headers(COPIES.replace("  extern __shared__ float shared[];\n", ""))
    x = torch.randn(32, 4)

    def copied(commit, wait, count=16):
        y = torch.zeros(32, 4)
        pointers = (ctypes.c_void_p(t.data_ptr()) for t in (x, y))
        library.run(*pointers, *(ctypes.c_int64(n) for n in (commit, wait, count)))
        return y

    assert torch.equal(copied(True, True), x)
    assert copied(True, False).isnan().all()
    assert copied(False, True).isnan().all()
    half = copied(True, True, count=8)
    assert torch.equal(half[:, :2], x[:, :2])
    assert not half[:, 2:].any()
