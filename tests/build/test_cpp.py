"""C++ functions built by the system's compiler."""

import time

import pytest
import torch

import kernellab as kl
from kernellab.base.errors import UserError
from kernellab.build.cpp import assembly, build


def test_a_function_is_built_and_called(source):
    x, y = torch.zeros(5), torch.empty(5)
    kl.cpp.function(source, "add")(x, y, 5, 0.5)
    assert y.tolist() == [1.5] * 5


def test_a_changed_header_causes_a_new_build(source):
    y = torch.empty(1)
    kl.cpp.function(source, "add")(torch.zeros(1), y, 1, 0.0)
    assert y.item() == 1
    first = build(source)
    (source.parent / "by.hpp").write_text("#define BY 2\n")
    assert build(source) != first


@pytest.mark.clocked
def test_a_shipped_function_builds_in_a_fraction_of_a_second(tmp_path, monkeypatch):
    monkeypatch.setenv("KERNELLAB_CACHE", str(tmp_path))
    start = time.perf_counter()
    build(kl.ops.square.file.parent / "cpp.cpp")
    assert time.perf_counter() - start < 3  # 0.4 s on an idle machine
    start = time.perf_counter()
    build(kl.ops.square.file.parent / "cpp.cpp")
    assert time.perf_counter() - start < 0.2


def test_the_assembly_names_the_function(source):
    assert "add:" in assembly(source)


def test_a_compile_error_shows_the_compilers_output(tmp_path):
    (tmp_path / "bad.cpp").write_text('extern "C" void f() { nonsense; }\n')
    with pytest.raises(UserError, match=r"bad\.cpp does not compile") as caught:
        kl.cpp.function(tmp_path / "bad.cpp", "f")()
    assert "nonsense" in caught.value.detail


def test_a_function_that_the_file_does_not_have_is_an_error(source):
    with pytest.raises(UserError, match='no extern "C" function sub'):
        kl.cpp.function(source, "sub")()
