"""The cache folder and files that are replaced as a whole."""

import pytest

from kernellab.base.errors import UserError
from kernellab.base.paths import cache_dir, file_name, replace_file


def test_environment_variables_name_the_cache_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("KERNELLAB_CACHE", str(tmp_path / "cache"))
    assert cache_dir("a", "b") == tmp_path / "cache" / "a" / "b"
    assert (tmp_path / "cache" / "a" / "b").is_dir()
    monkeypatch.delenv("KERNELLAB_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_dir() == tmp_path / "kernellab"


def test_a_cache_that_cannot_be_written_is_a_user_error(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("KERNELLAB_CACHE", str(tmp_path / "file"))
    with pytest.raises(UserError, match="Set KERNELLAB_CACHE to another folder"):
        cache_dir("ceilings")


def test_a_file_is_replaced_without_leaving_another(tmp_path):
    file = tmp_path / "a.json"
    replace_file(file, b"old")
    replace_file(file, b"new")
    assert file.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [file]


def test_any_text_becomes_a_file_name():
    assert file_name("NVIDIA H200 / driver 5.1") == "NVIDIA-H200---driver-5-1"
