// SiLU = x·s with s = 1/(1 + e⁻ˣ), from e^(−|x|), which cannot overflow. x = −∞ is −∞·0 = NaN, as in PyTorch.
#include "../exp.hpp"
#include "../rows.hpp"

struct Silu {
    template <class V>
    static V value(V x) {
        const V e = kl::exp_neg(-std::fabs(x));
        return (x > 0 ? x : x * e) / (1 + e);
    }

    // s·(1 + x·(1 − s)).
    template <class V>
    static V slope(V x) {
        const V e = kl::exp_neg(-std::fabs(x));
        const V s = (x > 0 ? 1 : e) / (1 + e), rest = (x > 0 ? e : 1) / (1 + e);
        return s * (1 + x * rest);
    }
};

KL_ACTIVATION(silu, Silu)
