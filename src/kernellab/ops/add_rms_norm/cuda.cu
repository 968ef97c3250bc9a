// RMS norm of a sum: ../norms.cuh adds the residual.
#include "../rms_norm/cuda.cu"
