// Dropout and addition: the arithmetic. ../rows.hpp moves the data and draws the words.
#include "../rows.hpp"

namespace {

// What an element is multiplied by.
class Dropout {
public:
    Dropout(int64_t last_kept, double scale) : last_kept_(uint32_t(last_kept)), scale_(kl::wide<kl::T>(scale)) {}

    auto factor(uint32_t word) const { return word <= last_kept_ ? scale_ : 0; }

private:
    uint32_t last_kept_;
    kl::wide<kl::T> scale_;
};

}  // namespace

extern "C" void dropout_add(KL_TENSOR(x), KL_TENSOR(residual), KL_TENSOR(y), KL_RANDOM, int64_t last_kept, double scale,
                            KL_SIZE) {
    const Dropout dropout(last_kept, scale);
    kl::map<2>({KL_STRIDED(x), KL_STRIDED(residual), KL_STRIDED(y)}, rows, cols, threads,
               [=](auto x, auto residual, uint32_t word) { return x * dropout.factor(word) + residual; }, KL_WORDS);
}

extern "C" void dropout_gradient(KL_TENSOR(dy), KL_TENSOR(dx), KL_RANDOM, int64_t last_kept, double scale, KL_SIZE) {
    const Dropout dropout(last_kept, scale);
    kl::map<1>({KL_STRIDED(dy), KL_STRIDED(dx)}, rows, cols, threads,
               [=](auto dy, uint32_t word) { return dy * dropout.factor(word); }, KL_WORDS);
}
