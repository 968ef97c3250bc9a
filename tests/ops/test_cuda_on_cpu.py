"""Kernels in CUDA C++ for rows of any width and alignment, run on the CPU and compared with PyTorch.

Unwritten results are NaN, and tensors lie among NaNs, which an element read outside them would bring into the results.
"""

import ctypes
import itertools
import math

import pytest
import torch

import kernellab as kl
from kernellab.ops.layout import Grid
from kernellab.ops.rows_cuda import Access, access_of
from support.row_ops import among_nans, assert_as_accurate_as_torch, both_passes, inputs_of
from support.simt import Gpu, compile_with_headers, run_on_cpu

# So few SMs that norms have several rows per team.
AMPERE, HOPPER = Gpu((8, 0), sms=1), Gpu((9, 0), sms=1)
# (GPU, rows, columns, dtype). Rows begin at different offsets from a multiple of 16 bytes; they take a warp, a block, a
# cluster of blocks, or do not fit in registers. The others are aligned: narrow, or so wide that a cluster holds them in
# shared memory and, backward, blocks stay: several rows at a time, one, or a slice of one, of which the last is empty.
SOFTMAX = [
    (HOPPER, 9, 259, "bfloat16"),
    (HOPPER, 3, 1031, "float32"),
    (HOPPER, 2, 9001, "float32"),
    (AMPERE, 2, 17001, "float32"),
    (HOPPER, 5, 7, "bfloat16"),
    (HOPPER, 2, 264, "float16"),
    (HOPPER, 3, 33000, "float32"),
]
NORM = [
    (HOPPER, 65, 259, "bfloat16"),
    (HOPPER, 33, 515, "float32"),
    (HOPPER, 33, 4101, "float32"),
    (AMPERE, 33, 8197, "float32"),
    (HOPPER, 5, 7, "bfloat16"),
    (HOPPER, 5, 264, "float16"),
    (HOPPER, 9, 2052, "float32"),
    (HOPPER, 5, 16640, "bfloat16"),
    (HOPPER, 3, 32772, "float32"),
]


@pytest.fixture(autouse=True)
def unwritten_memory_is_nan(monkeypatch):
    monkeypatch.setattr(torch.utils.deterministic, "fill_uninitialized_memory", True)
    torch.use_deterministic_algorithms(True, warn_only=True)
    yield
    torch.use_deterministic_algorithms(False)


def check(name, cases):
    """(GPU, inputs)"""
    op = getattr(kl.ops, name)
    calls = [(gpu, lambda inputs=inputs: both_passes(op, "cuda", inputs)) for gpu, inputs in cases]
    for (_, inputs), results in zip(cases, run_on_cpu(*calls), strict=True):
        assert_as_accurate_as_torch(op, inputs, results)


@pytest.mark.parametrize("name", ["softmax", "log_softmax", "layer_norm", "add_rms_norm"])
def test_rows_of_any_width_and_alignment(name):
    sizes = NORM if name.endswith("norm") else SOFTMAX
    cases = [(gpu, inputs_of(name, rows, cols, getattr(torch, dtype))) for gpu, rows, cols, dtype in sizes]
    # Inputs that begin at another offset than the results.
    check(name, [*cases, (HOPPER, inputs_of(name, 3, 259, torch.float32, offset=1))])


@pytest.mark.parametrize("seed", range(4))
def test_layer_norm_of_rows_with_an_outlier_and_of_rows_far_from_0(seed):
    x = torch.randn(6, 2052, generator=torch.Generator().manual_seed(seed))
    x[:3] *= 1e-2
    for row in range(3):
        x[row, 4 * row] = 3e3  # the first element that a thread takes; in other columns, where gradients would cancel
    x[3:] += 1e3
    _, *parameters = inputs_of("layer_norm", 3, 2052, torch.float32)
    check("layer_norm", [(HOPPER, [among_nans(rows).requires_grad_(), *parameters]) for rows in x.split(3)])


def test_special_rows_of_log_softmax():
    x = torch.randn(6, 1031)
    x[0, :-1], x[1], x[2, 3], x[3, 1030] = -math.inf, -math.inf, math.nan, math.inf
    x[4] = torch.finfo(torch.float32).min
    check("log_softmax", [(HOPPER, [among_nans(x).requires_grad_()])])


def access(tensors, strides):
    return access_of(tensors, Grid(64, 4096, strides))


def test_rows_are_moved_16_bytes_at_a_time_where_all_tensors_begin_at_the_same_offset():
    x, y = torch.empty(64, 4096), torch.empty(64, 4096)
    misaligned = torch.empty(64 * 4096 + 1)[1:].view(64, 4096)
    contiguous = ((4096, 1), (4096, 1))
    assert access([x, y], contiguous) == Access(4, aligned=True)
    assert access([misaligned, misaligned], contiguous) == Access(4, aligned=False)
    assert access([x, y], ((4097, 1), (4101, 1))) == Access(4, aligned=False)
    for tensors, strides in (
        ([misaligned, y], contiguous),
        ([x, y], ((4097, 1), (4096, 1))),
        ([x, y], ((8192, 2), (4096, 1))),
    ):
        assert access(tensors, strides) == Access(1, aligned=True)


TAKEN_ONCE = """
#include "ops/teams.cuh"

// The first width at which threads of a team do not take every element of a row once, in aligned accesses; else 0.
template <class T>
int64_t check(int64_t widest, int threads) {
  constexpr int WIDTH = 16 / sizeof(T);
  std::vector<int> taken;
  for (int64_t cols = 1; cols <= widest; cols++)
    for (int64_t offset = 0; offset < WIDTH; offset++) {
      const T* const row = reinterpret_cast<const T*>(1024) + offset;
      const Peeled<T, WIDTH> peeled(row, cols);
      taken.assign(cols, 0);
      for (int64 thread = 0; thread < threads; thread++) {
        const Part<int64> part = peeled.part(thread, (int64)threads), extra = peeled.extra_part(thread);
        for (int64_t at = part.first; at < part.end; at += part.step) {
          const int64_t col = part.from + at * WIDTH;
          if (reinterpret_cast<uint64_t>(row + col) % 16 || col + WIDTH > cols) return cols;
          for (int k = 0; k < WIDTH; k++) taken[col + k]++;
        }
        if (extra.first < extra.end) taken[extra.from + extra.first]++;
      }
      if (std::count(taken.begin(), taken.end(), 1) != cols) return cols;
    }
  return 0;
}
extern "C" int64_t check_2(int64_t widest, int threads) { return check<__nv_bfloat16>(widest, threads); }
extern "C" int64_t check_4(int64_t widest, int threads) { return check<float>(widest, threads); }
"""


def test_threads_take_every_element_of_a_row_once_whatever_its_width_and_offset():
    library = compile_with_headers(TAKEN_ONCE)
    for size, threads in itertools.product((2, 4), (32, 96)):
        assert library[f"check_{size}"](ctypes.c_int64(2000), threads) == 0
