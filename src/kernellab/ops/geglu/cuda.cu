// GeGLU: ../elementwise.cuh builds Gated<GeluTanh>, Gated<GeluErf> and their gradients from GeLU.
#include "../gelu/cuda.cu"
