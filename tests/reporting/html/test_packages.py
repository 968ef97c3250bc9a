"""Packages that are missing or broken are named in a sentence, with the command that mends them."""

import sys

import pytest

from kernellab.reporting.html.packages import MissingPackages, require


def _missing(*modules):
    with pytest.raises(MissingPackages) as caught:
        require(*modules)
    return caught.value


def test_packages_that_are_there_are_imported():
    require("json", "json.decoder")


def test_a_package_that_is_not_installed_is_named():
    missing = _missing("no_such_package", "json", "no_such_other.part")
    assert missing.needs == "no_such_package and no_such_other"
    assert missing.install == "pip install no_such_package no_such_other"


def test_a_package_that_cannot_be_imported_is_named_with_the_reason(tmp_path, monkeypatch):
    (tmp_path / "damaged.py").write_text("raise ImportError('libdamaged.so:\\n cannot open')")
    (tmp_path / "unsuited.py").write_text("import no_such_package")
    (tmp_path / "partial").mkdir()
    (tmp_path / "partial" / "__init__.py").write_text("")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    missing = _missing("damaged", "unsuited", "partial.offline")
    assert "damaged, which cannot be imported (ImportError: libdamaged.so: cannot open)" in missing.needs
    assert "unsuited, which cannot be imported (No module named 'no_such_package')" in missing.needs
    assert "partial, which cannot be imported" in missing.needs
    assert missing.install == "pip install --force-reinstall damaged unsuited partial"
