// RMS norm of x + residual; the sum is the second result.
#include "../rms_norm/cpp.cpp"

KL_ADD_NORM(add_rms_norm, RmsNorm)
