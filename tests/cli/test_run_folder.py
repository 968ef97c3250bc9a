"""The folder of a run."""

import pytest

from kernellab.base.errors import UserError
from kernellab.cli import run_folder
from kernellab.cli.run_folder import create_journal
from kernellab.record.settings import NO_CASES, Settings

SETTINGS = Settings(targets=["gelu"], stages=["check"], request=NO_CASES)


@pytest.fixture(autouse=True)
def _project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(run_folder.time, "strftime", lambda _: "20260131-120000")


def test_runs_that_begin_in_the_same_second_have_folders_of_their_own(tmp_path):
    journals = [create_journal(None, SETTINGS) for _ in range(3)]
    names = [journal.folder.name for journal in journals]
    assert names == ["20260131-120000-gelu", "20260131-120000-gelu-2", "20260131-120000-gelu-3"]
    for journal in journals:
        journal.remove()
    assert list((tmp_path / "runs").iterdir()) == []


def test_a_folder_that_holds_a_run_is_refused(tmp_path):
    create_journal("given", SETTINGS).close()
    with pytest.raises(UserError, match="given already holds a run: --resume given continues it"):
        create_journal("given", SETTINGS)


def test_a_folder_that_cannot_be_made_is_refused_in_a_sentence(tmp_path):
    (tmp_path / "runs").write_text("a file")
    with pytest.raises(UserError, match=r"cannot write the record to runs/.*--out DIR names another place"):
        create_journal(None, SETTINGS)
