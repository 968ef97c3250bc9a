"""The code of a version: found below the folder that the user names, and nowhere else."""

import json
import sys
from pathlib import Path

import pytest

from kernellab.base.errors import UserError
from kernellab.remeasuring.code import Code, Installation, find_code, recorded_targets

OP = "import kernellab as kl\n\n@kl.op\ndef scale(x):\n    return 2 * x\n"


def found(targets, *, op="scale", source=None, python=None):
    return find_code(op, targets, Installation(python, source), "here", "--before-src")


@pytest.fixture
def worktree(tmp_path):
    (tmp_path / "kernels").mkdir()
    (tmp_path / "kernels" / "scale.py").write_text(OP)
    return tmp_path


def test_a_file_is_found_by_the_end_of_its_recorded_path(worktree):
    expected = Code(f"{worktree}/kernels/scale.py:scale", "here")
    for recorded in ("/home/u/project/kernels/scale.py", "/elsewhere/kernels/scale.py:scale"):
        assert found([recorded], source=worktree) == expected
    assert found(["/home/u/project/scale.py"], source=worktree / "kernels") == expected
    assert found([], source=worktree / "kernels" / "scale.py") == expected


def test_without_a_folder_it_is_the_current_one(worktree, monkeypatch):
    monkeypatch.chdir(worktree)
    assert found(["/home/u/kernels/scale.py"]).target == f"{worktree}/kernels/scale.py:scale"


def test_of_several_files_the_one_with_the_op_is_taken(worktree):
    (worktree / "other.py").write_text("import kernellab")
    assert found(["/x/other.py", "/x/kernels/scale.py"], source=worktree).target.endswith("kernels/scale.py:scale")
    (worktree / "other.py").write_text(OP)
    with pytest.raises(UserError, match="more than one file of the op scale"):
        found(["/x/other.py", "/x/kernels/scale.py"], source=worktree)


@pytest.mark.parametrize(
    "recorded", ["/etc/passwd", "../secret.py", "/x/../../secret.py", "link/secret.py", "-x.py", ""]
)
def test_a_strangers_path_leads_nowhere_else(worktree, recorded):
    (worktree / "inside").mkdir()
    (worktree / "secret.py").write_text(OP)
    (worktree / "inside" / "link").symlink_to(worktree)
    with pytest.raises(UserError, match=r"no file of the op scale below .*--before-src names its folder"):
        found([recorded], source=worktree / "inside")


def test_a_shipped_op_needs_a_checkout_of_kernellab(tmp_path):
    assert found(["gelu"], op="gelu", python=sys.executable).python == str(Path(sys.executable).absolute())
    with pytest.raises(UserError, match="has no kernellab in it"):
        found(["gelu"], op="gelu", source=tmp_path)
    (tmp_path / "src" / "kernellab").mkdir(parents=True)
    assert found(["gelu"], op="gelu", source=tmp_path) == Code("gelu", "here", (tmp_path / "src").resolve())


def test_an_op_of_a_package_is_imported_from_the_folder(tmp_path):
    assert found(["package.ops:scale"], source=tmp_path) == Code("package.ops:scale", "here", tmp_path.resolve())


def test_a_process_runs_where_its_version_is(tmp_path, worktree):
    assert found(["/x/kernels/scale.py"], source=worktree).folder == worktree / "kernels"
    assert Code("package.ops:scale", "here", tmp_path).folder == tmp_path
    assert Code("gelu", "here").folder is None


def test_what_does_not_exist_is_refused(tmp_path):
    with pytest.raises(UserError, match="no Python interpreter at nowhere/python"):
        found(["gelu"], op="gelu", python="nowhere/python")
    with pytest.raises(UserError, match="does not exist"):
        found(["gelu"], op="gelu", source=tmp_path / "nowhere")


def test_targets_are_read_from_the_journal_if_there_is_one(tmp_path):
    assert recorded_targets(tmp_path) == []
    environment = {"python": "3", "packages": {}, "cpu": {"name": "c"}, "gpus": []}
    head = {"event": "run", "schema": 3, "command": [], "seed": 0, "environment": environment}
    (tmp_path / "journal.jsonl").write_text(json.dumps({**head, "settings": {"targets": ["gelu", 5]}}) + "\n")
    assert recorded_targets(tmp_path) == recorded_targets(tmp_path / "run.json") == ["gelu"]
