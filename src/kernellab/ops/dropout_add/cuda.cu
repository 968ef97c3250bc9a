// Dropout and addition: the arithmetic. ../elementwise.cuh moves the data and draws the words.
#include "../elementwise.cuh"

struct Dropout {
  unsigned last_kept;
  float scale;

  __device__ Dropout(int64 last_kept, double scale) : last_kept((unsigned)last_kept), scale((float)scale) {}

  __device__ float factor(unsigned word) const { return word <= last_kept ? scale : 0.0f; }
};

struct DropoutAdd : Functor<2, 1, true>, Dropout {  // x and the residual
  using Dropout::Dropout;
  __device__ void operator()(const float* in, float* out, unsigned word) const {
    out[0] = in[0] * factor(word) + in[1];
  }
};

struct DropoutGradient : Functor<1, 1, true>, Dropout {  // the upstream gradient
  using Dropout::Dropout;
  __device__ void operator()(const float* in, float* out, unsigned word) const { out[0] = in[0] * factor(word); }
};
