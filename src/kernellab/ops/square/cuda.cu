// Square: the arithmetic. ../elementwise.cuh moves the data; cuda.py names map_flat<Square, ...> and map_rows<...>.
#include "../elementwise.cuh"

struct Square {
  __device__ float operator()(float x) const { return x * x; }
};
