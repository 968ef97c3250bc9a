// Layer norm: ../norms.cuh moves the data.
#include "../norms.cuh"

struct LayerNorm {
  static constexpr bool CENTRED = true;
  __device__ static float normalized(float x, float mean, float rstd) { return (x - mean) * rstd; }
  __device__ static float gradient(float g, float normal, float mean_g, float mean_product, float rstd) {
    return (g - mean_g - normal * mean_product) * rstd;
  }
};
