// SwiGLU: ../elementwise.cuh builds Gated<Silu> and its gradients from SiLU.
#include "../silu/cuda.cu"
