"""The identity of a device, the class of its machine, and what is checked out."""

import re
import subprocess
import time
from datetime import datetime

from kernellab.machine.environment import Commit, commit, device_identity, machine_class


def test_only_the_identity_of_a_device_contains_its_uuid():
    gpu = {"name": "NVIDIA H200", "uuid": "GPU-123", "driver": "580"}
    env = {"gpus": [gpu], "cpu": {"name": "Xeon", "cores": 2}}
    assert machine_class(env, "GPU-123") == "NVIDIA H200 driver 580"
    assert device_identity(env, "GPU-123") == "NVIDIA H200 GPU-123 driver 580"


def test_the_commit_has_its_time_and_branch_and_is_marked_where_files_differ(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert commit() == Commit()
    for variable in ("GITHUB_HEAD_REF", "GITHUB_REF_NAME", "CI_COMMIT_REF_NAME"):
        monkeypatch.delenv(variable, raising=False)
    (tmp_path / "file").write_text("1")
    identity = ("-c", "user.name=a", "-c", "user.email=a@b")
    for words in (["init", "-q", "-b", "feature"], ["add", "file"], [*identity, "commit", "-q", "-m", "first"]):
        subprocess.run(["git", *words], check=True)
    head = commit()
    assert head.branch == "feature"
    assert re.fullmatch("[0-9a-f]{40}", head.name)
    assert abs(datetime.fromisoformat(head.time).timestamp() - time.time()) < 3600
    (tmp_path / "file").write_text("2")
    assert commit() == head._replace(name=f"{head.name}+changes")
    subprocess.run(["git", "checkout", "-q", "--detach"], check=True)
    assert commit().branch is None
    monkeypatch.setenv("GITHUB_REF_NAME", "main")
    assert commit().branch == "main"
