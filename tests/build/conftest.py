"""A fixture: a C++ file with a header."""

import pytest

ADD = """#include <cstdint>
#include "by.hpp"
extern "C" void add(const float* x, float* y, int64_t n, double more) {
  for (int64_t i = 0; i < n; ++i) y[i] = x[i] + BY + more;
}
"""


@pytest.fixture
def source(tmp_path):
    (tmp_path / "by.hpp").write_text("#define BY 1\n")
    (tmp_path / "add.cpp").write_text(ADD)
    return tmp_path / "add.cpp"
