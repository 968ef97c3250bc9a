// SwiGLU: SiLU of the gate, times up.
#include "../silu/cpp.cpp"

KL_GATED(swiglu, Silu)
