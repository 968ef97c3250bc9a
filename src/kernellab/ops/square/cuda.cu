// Square: the arithmetic. ../elementwise.cuh moves the data; cuda.py names the instantiations,
// map_flat<Square, float, 4> for one.
#include "../elementwise.cuh"

struct Square {
  __device__ float operator()(float x) const { return x * x; }
};
