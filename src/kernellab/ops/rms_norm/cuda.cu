// RMS norm: ../norms.cuh moves the data.
#include "../norms.cuh"

struct RmsNorm {
  static constexpr bool CENTRED = false;
  __device__ static float normalized(float x, float, float rstd) { return x * rstd; }
  __device__ static float gradient(float g, float normal, float, float mean_product, float rstd) {
    return (g - normal * mean_product) * rstd;
  }
};
