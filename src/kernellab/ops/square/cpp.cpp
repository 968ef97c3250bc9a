// Square, elementwise.
#include "../rows.hpp"

struct Square {
    template <class V>
    static V value(V x) { return x * x; }
    template <class V>
    static V slope(V x) { return 2 * x; }
};

KL_ACTIVATION(square, Square)
