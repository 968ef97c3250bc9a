#pragma once
#include "dtypes.hpp"
typedef kl::bfloat16 __nv_bfloat16;
inline float __bfloat162float(__nv_bfloat16 value) { return kl::widen(value); }
inline __nv_bfloat16 __float2bfloat16_rn(float value) {
    __nv_bfloat16 result;
    kl::narrow(value, result);
    return result;
}
