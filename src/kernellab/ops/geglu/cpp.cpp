// GeGLU: GeLU of the gate, times up.
#include "../gelu/cpp.cpp"

KL_GATED(geglu_tanh, GeluTanh)
KL_GATED(geglu_erf, GeluErf)
