"""Source files, their includes and their fingerprint."""

import contextlib

import pytest
import torch

import kernellab as kl
from kernellab.base.errors import UserError
from kernellab.build import sources
from kernellab.build.sources import fingerprint, with_includes


def test_the_fingerprint_covers_included_files(source):
    assert [path.name for path in with_includes(source)] == ["add.cpp", "by.hpp"]
    before = fingerprint(source)
    assert fingerprint(source) == before
    (source.parent / "by.hpp").write_text("#define BY 2\n")
    assert fingerprint(source) != before


@pytest.mark.parametrize("build", [kl.cpp.function, kl.cuda.kernel])
def test_a_missing_source_file_is_an_error(build, tmp_path):
    with pytest.raises(UserError, match="no source file"):
        build(tmp_path / "none.cpp", "f")
    with pytest.raises(UserError, match="no source file"):
        build("none.cpp", "f")  # relative to this file


def test_observers_are_notified_of_a_build(source, monkeypatch):
    names = []

    @contextlib.contextmanager
    def observer(name):
        names.append(name)
        yield

    monkeypatch.setattr(sources, "observers", [observer])
    kl.cpp.function(source, "add")(torch.zeros(1), torch.empty(1), 1, 0.0)
    assert names == ["add.cpp"]
