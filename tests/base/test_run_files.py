"""A record's file names lead to files inside the run's folder and nowhere else."""

import os

import pytest

from kernellab.base.json_files import Refused
from kernellab.base.run_files import read_run_file


@pytest.fixture
def run(tmp_path):
    folder = tmp_path / "run"
    (folder / "artifacts").mkdir(parents=True)
    (folder / "artifacts" / "k.ptx").write_bytes(b"ret;")
    (tmp_path / "secret.txt").write_bytes(b"secret")
    return folder


def test_a_file_of_the_run_is_read_also_where_a_link_leads_to_the_run(run, tmp_path):
    assert read_run_file(run, "artifacts/k.ptx", 4) == b"ret;"
    (tmp_path / "latest").symlink_to(run)
    assert read_run_file(tmp_path / "latest", "artifacts/k.ptx", 4) == b"ret;"


@pytest.mark.parametrize(
    "name",
    ["../secret.txt", "artifacts/../../secret.txt", "/etc/passwd", "", ".", "artifacts/", "a//b", "a\0b", "~/x/.."],
)
def test_a_name_that_leads_elsewhere_is_refused(run, name):
    with pytest.raises(Refused, match="leads out of"):
        read_run_file(run, name, 100)


def test_links_inside_the_run_are_refused(run, tmp_path):
    (run / "artifacts" / "file").symlink_to(tmp_path / "secret.txt")
    (run / "folder").symlink_to(tmp_path)
    for name in ("artifacts/file", "folder/secret.txt"):
        with pytest.raises(Refused, match="symbolic link"):
            read_run_file(run, name, 100)


def test_only_ordinary_files_of_limited_size_are_read(run):
    os.mkfifo(run / "artifacts" / "pipe")
    with pytest.raises(Refused, match="not an ordinary file"):
        read_run_file(run, "artifacts/pipe", 100)
    with pytest.raises(Refused, match="not an ordinary file"):
        read_run_file(run, "artifacts", 100)
    with pytest.raises(Refused, match="larger than"):
        read_run_file(run, "artifacts/k.ptx", 3)
    with pytest.raises(FileNotFoundError):
        read_run_file(run, "artifacts/gone.ptx", 100)
