"""Square with its own host code, as an example of the code that `kl.cuda.kernel` makes unnecessary.

nvcc builds the text below with torch's headers (half a minute the first time). The host function does
what every such function must do: pick the device and the stream, allocate, choose a grid, launch.
"""

import functools
from types import ModuleType

import torch

from kernellab.build.cuda import inline
from kernellab.ops.floats import require_float

CPP = "torch::Tensor square(torch::Tensor x);"  # the function that Python calls

CUDA = r"""
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

// N neighbouring elements, read and written as one access of 16 bytes (or one element, with N = 1).
template <typename T, int N> struct alignas(N * sizeof(T)) Pack { T at[N]; };

// x: [rows, packs] with strides (x_row, x_col), y: likewise, all counted in packs. Indices are int64: with
// int, tensors beyond 2^31 elements would overflow. The grid's x runs along the columns, so that
// neighbouring threads access neighbouring memory, its y along the rows.
template <typename T, int N>
__global__ void square_kernel(const Pack<T, N>* x, Pack<T, N>* y, int64_t rows, int64_t packs,
                              int64_t x_row, int64_t x_col, int64_t y_row, int64_t y_col) {
  const int64_t col = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (col >= packs) return;
  // A grid has at most 65,535 blocks in y: each takes every (gridDim.y)-th strip of rows.
  const int64_t step = (int64_t)gridDim.y * blockDim.y;
  for (int64_t row = (int64_t)blockIdx.y * blockDim.y + threadIdx.y; row < rows; row += step) {
    Pack<T, N> pack = x[row * x_row + col * x_col];
    for (int i = 0; i < N; i++) {
      const float v = static_cast<float>(pack.at[i]);
      pack.at[i] = static_cast<T>(v * v);
    }
    y[row * y_row + col * y_col] = pack;
  }
}

template <typename T, int N>
void launch(const torch::Tensor& x, const torch::Tensor& y, int64_t rows, int64_t cols,
            int64_t x_row, int64_t x_col, int64_t y_row, int64_t y_col) {
  const int64_t packs = cols / N;
  unsigned across = 1;
  while (across < 128 && across < packs) across *= 2;
  const dim3 block(across, 128 / across);  // rows shorter than a block share it
  const dim3 grid((packs + block.x - 1) / block.x, std::min<int64_t>((rows + block.y - 1) / block.y, 65535));
  const cudaStream_t stream = c10::cuda::getCurrentCUDAStream();  // not the default stream
  square_kernel<T, N><<<grid, block, 0, stream>>>(
      reinterpret_cast<const Pack<T, N>*>(x.const_data_ptr<T>()), reinterpret_cast<Pack<T, N>*>(y.data_ptr<T>()),
      rows, packs, x_row / N, x_col, y_row / N, y_col);
  C10_CUDA_KERNEL_LAUNCH_CHECK();  // otherwise a refused launch goes unnoticed
}

torch::Tensor square(torch::Tensor x) {
  TORCH_CHECK(x.is_cuda(), "square needs its tensor on a GPU");
  const c10::cuda::CUDAGuard guard(x.device());  // launches go to x's device, not the current one
  torch::Tensor y = torch::empty_like(x);        // dense, with the strides PyTorch would give the result
  if (x.numel() == 0) return y;                  // a grid of no blocks is an error

  // Equal strides: both are contiguous memory in the same order, whatever the shape, and can be read as
  // contiguous rows. Another 2-D tensor keeps its own strides; anything else is copied into y's order.
  const bool strided = x.strides() != y.strides() && x.dim() == 2;
  if (x.strides() != y.strides() && !strided) x = torch::empty_like(y).copy_(x);
  const int64_t cols = x.dim() ? x.size(-1) : 1, rows = x.numel() / cols;
  const int64_t x_row = strided ? x.stride(0) : cols, x_col = strided ? x.stride(1) : 1;
  const int64_t y_row = strided ? y.stride(0) : cols, y_col = strided ? y.stride(1) : 1;

  const auto run = [&](auto zero) {
    using T = decltype(zero);
    constexpr int wide = 16 / sizeof(T);  // 16-byte accesses need every address to be a multiple of 16
    const bool aligned = x_col == 1 && y_col == 1 && cols % wide == 0 && x_row % wide == 0 && y_row % wide == 0 &&
                         (uintptr_t)x.const_data_ptr() % 16 == 0 && (uintptr_t)y.data_ptr() % 16 == 0;
    (aligned ? launch<T, wide> : launch<T, 1>)(x, y, rows, cols, x_row, x_col, y_row, y_col);
  };
  switch (x.scalar_type()) {
    case at::kFloat: run(float{}); break;
    case at::kHalf: run(at::Half{}); break;
    case at::kBFloat16: run(at::BFloat16{}); break;
    default: TORCH_CHECK_TYPE(false, "square has no kernel for ", x.scalar_type());
  }
  return y;
}
"""


def square_cuda_inline(x: torch.Tensor) -> torch.Tensor:
    require_float(x, "square")
    y: torch.Tensor = _module().square(x)
    return y


@functools.cache
def _module() -> ModuleType:
    return inline(CPP, CUDA, ["square"])
