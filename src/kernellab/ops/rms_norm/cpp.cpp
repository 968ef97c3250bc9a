// RMS norm: each row is scaled to a mean square of 1.
#include "../norms.hpp"

struct RmsNorm {
    static constexpr bool kCentred = false;

    template <class V>
    static V normalized(V x, V, V rstd) {
        return x * rstd;
    }

    template <class V>
    static V gradient(V g, V normal, V, V mean_product, V rstd) {
        return (g - normal * mean_product) * rstd;
    }
};

KL_NORM(rms_norm, RmsNorm)
