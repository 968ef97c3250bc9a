// Layer norm: each row is centred and scaled to variance 1.
#include "../norms.hpp"

namespace {

struct LayerNorm {
    static constexpr bool kCentred = true;

    template <class V>
    static V normalized(V x, V mean, V rstd) {
        return (x - mean) * rstd;
    }

    template <class V>
    static V gradient(V g, V normal, V mean_g, V mean_product, V rstd) {
        return (g - mean_g - normal * mean_product) * rstd;
    }
};

}  // namespace

KL_NORM(layer_norm, LayerNorm)
