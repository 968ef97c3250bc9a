// GeLU = x·Φ(x), in forms whose error stays small where 1 + tanh or 1 + erf would cancel.
// x = −∞ is −∞·0 = NaN, as in PyTorch.
#include "../exp.hpp"
#include "../rows.hpp"

namespace {

// ½·(1 + tanh u) = 1 / (1 + e⁻²ᵘ) = e²ᵘ / (1 + e²ᵘ), with 2u = 2·√(2/π)·(x + 0.044715·x³).
template <class V>
inline V tanh_form(V x) {
    constexpr V kLinear = V(1.5957691216057307118), kCubic = V(0.071354816272600248776);
    const V e = kl::exp_neg(-std::fabs(x) * (kLinear + kCubic * (x * x)));
    return (x > 0 ? x : x * e) / (1 + e);
}

inline double erf_form(double x) { return 0.5 * x * std::erfc(x * -0.70710678118654752440); }

// Φ(−a) = e^(−a²/2)·g(a). With t = 1/(1 + 0.34·a) and w = 1 − t, g(a)/t is nearly a polynomial in w, whose
// constant term ½ keeps small x exact. The others are the minimax fit in relative error on 0 ≤ a ≤ 14, beyond
// which e^(−a²/2) is 0 (Remez exchange in 40 digits, then rounded to float32; of the factors tried, 0.34
// needs the fewest terms). The error is at most 2⁻²⁴·⁹.
inline float erf_form(float x) {
    const float a = std::fabs(x) > 14 ? 14 : std::fabs(x);  // ∞·t would be NaN below; NaN itself passes
    const float t = 1 / (1 + 0.34f * a);
    const float w = 0.34f * a * t;  // 1 − t would keep only the leading digits of a small a
    float p = -0x1.acd446p-6f;
    p = p * w + 0x1.1d5c64p-4f;
    p = p * w + -0x1.d0427p-6f;
    p = p * w + -0x1.e8fff4p-6f;
    p = p * w + -0x1.3af13cp-4f;
    p = p * w + 0x1.5ab986p-4f;
    p = p * w + 0x1.437da8p-2f;
    p = p * w + -0x1.58c2aap-1f;
    p = p * w + 0.5f;
    const float tail = kl::exp_neg(-0.5f * a * a) * (p * t);
    return x * (x > 0 ? 1 - tail : tail);
}

}  // namespace

extern "C" void gelu_tanh(const kl::T* x, kl::T* y, int64_t rows, int64_t cols, int64_t x_row, int64_t x_col,
                          int64_t y_row, int64_t y_col, int64_t threads) {
    kl::map(x, y, {rows, cols, x_row, x_col, y_row, y_col}, threads, [](auto v) { return tanh_form(v); });
}

extern "C" void gelu_none(const kl::T* x, kl::T* y, int64_t rows, int64_t cols, int64_t x_row, int64_t x_col,
                          int64_t y_row, int64_t y_col, int64_t threads) {
    kl::map(x, y, {rows, cols, x_row, x_col, y_row, y_col}, threads, [](auto v) { return erf_form(v); });
}
