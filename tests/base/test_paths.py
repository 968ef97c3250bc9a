"""The cache folder and files that are replaced as a whole."""

import os

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


def test_prepared_links_are_replaced_and_not_followed(tmp_path, monkeypatch):
    mine, folder = tmp_path / "mine.txt", tmp_path / "run"
    folder.mkdir()
    mine.write_text("mine")
    for name in ("a.json", f".a.json.{os.getpid()}", f".a.json.{bytes(8).hex()}"):
        (folder / name).symlink_to(mine)
    replace_file(folder / "a.json", b"new")
    assert (folder / "a.json").read_bytes() == b"new"
    assert not (folder / "a.json").is_symlink()
    monkeypatch.setattr(os, "urandom", bytes)  # a stranger who guessed the name of the scratch file
    with pytest.raises(FileExistsError):
        replace_file(folder / "a.json", b"newer")
    assert mine.read_text() == "mine"
    assert len(list(folder.iterdir())) == 3, "only what replace_file made itself is removed"


def test_a_replaced_file_has_the_permissions_of_any_new_file(tmp_path):
    (tmp_path / "usual").touch()
    replace_file(tmp_path / "replaced", b"")
    assert (tmp_path / "replaced").stat().st_mode == (tmp_path / "usual").stat().st_mode
