"""The parent starts a process under ncu and reads its answer and its pages."""

import sys

import pytest

from kernellab.base.errors import UserError
from kernellab.running.parent import nsight_compute
from support.ncu_pages import launch, raw
from support.profile_requests import profile_request


def test_the_process_is_run_under_ncu_and_answers(tmp_path):
    """A tool that does nothing but run what it is given, and leave a report."""
    tool = tmp_path / "ncu"
    tool.write_text(
        f"#!{sys.executable}\nimport pathlib, subprocess, sys\nwords = sys.argv[1:]\n"
        f"if '--import' in words:\n    print({raw(launch())!r} if 'raw' in words else '')\n    sys.exit()\n"
        "at = words.index('--export') + 1\npathlib.Path(words[at] + '.ncu-rep').write_text('')\n"
        "sys.exit(subprocess.call(words[at + 1 :]))"
    )
    tool.chmod(0o755)
    counted = nsight_compute.count(profile_request("gelu", do="count"), tmp_path / "gelu.ncu-rep", str(tool))
    assert [(answer["impl"], answer["status"]) for answer in counted.answer] == [("manual", "ok")]
    assert counted.answer[0]["cost"]["bytes_read"] == 128
    assert [launch.name for launch in counted.launches] == ["map_flat"]


def test_the_refusal_of_the_listing_process_is_passed_on(tmp_path):
    with pytest.raises(UserError, match="there is none here"):
        nsight_compute.ways(profile_request("gelu"), tmp_path / "ways.json")
