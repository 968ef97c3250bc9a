// GeLU, tanh form, from the textbook to cuda.cu: every step changes one thing. x and y are contiguous.
#include "cuda.cu"

constexpr float SQRT_2_OVER_PI = 0.7978845608028654f;
__device__ __forceinline__ float argument(float x) { return SQRT_2_OVER_PI * (x + 0.044715f * (x * x * x)); }

// The formula as it is written.
struct Textbook {
  __device__ static float value(float x) { return 0.5f * x * (1.0f + tanhf(argument(x))); }
};

// tanh(u) = (e^2u - 1) / (e^2u + 1), which looks cheaper than tanhf. Wrong on purpose: above x = 10.06 the exponential
// overflows, and inf / inf is NaN. CUDA's tanhf is made of an exponential and a reciprocal too, but with care. The
// cheapest right form is GeluTanh of cuda.cu: x times a sigmoid, in which nothing is subtracted from an exponential.
struct ExpTanh {
  __device__ static float value(float x) {
    const float e = __expf(2.0f * argument(x));
    return 0.5f * x * (1.0f + (e - 1.0f) / (e + 1.0f));
  }
};

// One thread per element: a warp's accesses are coalesced, but a load brings a thread no more than 4 or 2 bytes.
template <typename T, class Form>
__global__ void gelu_element(const T* x, T* y, int64 n) {
  const int64 i = (int64)blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = from_float<T>(Form::value(to_float(x[i])));
}

// COUNT accesses of WIDTH elements per thread. 16 bytes per access: 4 or 8 times fewer instructions and threads move the
// same bytes. With COUNT > 1, a thread's loads are all under way before it uses the first one.
template <typename T, int WIDTH, class Form, int COUNT>
__global__ void gelu_vector(const Vec<T, WIDTH>* x, Vec<T, WIDTH>* y, int64 n) {
  const int64 first = (int64)blockIdx.x * COUNT * blockDim.x + threadIdx.x;
  Vec<T, WIDTH> v[COUNT];
#pragma unroll
  for (int i = 0; i < COUNT; i++)
    if (first + i * blockDim.x < n) v[i] = x[first + i * blockDim.x];
#pragma unroll
  for (int i = 0; i < COUNT; i++) {
#pragma unroll
    for (int k = 0; k < WIDTH; k++) v[i].set(k, Form::value(v[i][k]));
    if (first + i * blockDim.x < n) y[first + i * blockDim.x] = v[i];
  }
}
