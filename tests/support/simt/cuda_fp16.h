#pragma once
#include "dtypes.hpp"
typedef kl::float16 __half;
inline float __half2float(__half value) { return kl::widen(value); }
inline __half __float2half_rn(float value) {
    __half result;
    kl::narrow(value, result);
    return result;
}
