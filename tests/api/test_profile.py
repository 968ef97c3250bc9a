"""`kl.profile`."""

import pytest
import torch

import kernellab as kl
from kernellab.base.errors import UserError


def test_one_call_returns_the_tables_and_writes_trace_and_stacks(tmp_path):
    calls = []
    profile = kl.profile(
        "square root", lambda: calls.append(torch.ones(9).sqrt()), num_warmups=2, with_stack=True, folder=str(tmp_path)
    )
    assert len(calls) == 3
    assert "aten::sqrt" in profile
    assert isinstance(profile, str)
    names = {path.name for path in profile.files}
    assert names == {"trace_square_root.json", "stacks_square_root.svg", "stacks_square_root.txt"}
    assert all(path.exists() for path in profile.files)
    assert "aten::sqrt" in (tmp_path / "stacks_square_root.txt").read_text()


def test_profiles_with_long_descriptions_have_files_of_their_own(tmp_path):
    files = [kl.profile("é" * 300 + end, lambda: torch.ones(9).sqrt(), 0, folder=str(tmp_path)).files for end in "ab"]
    assert len({path for written in files for path in written}) == len(files[0]) + len(files[1])


def test_fewer_than_no_warm_up_calls_are_refused():
    with pytest.raises(UserError, match="num_warmups"):
        kl.profile("x", lambda: None, num_warmups=-1)


def test_a_folder_that_cannot_be_written_is_one_sentence(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="could not be written"):
        kl.profile("sin", lambda: torch.ones(3).sin(), folder=str(tmp_path / "file"))
