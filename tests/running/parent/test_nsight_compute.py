"""How the parent runs Nsight Compute. A script replaces ncu."""

import sys

import pytest

from kernellab.base.errors import UserError
from kernellab.running.parent import nsight_compute as ncu
from support.ncu_pages import launch, raw
from support.op_requests import op_request


def test_the_process_runs_under_ncu_and_answers(tmp_path):
    """The replacement only runs its command and leaves a report."""
    tool = tmp_path / "ncu"
    tool.write_text(
        f"#!{sys.executable}\nimport pathlib, subprocess, sys\nwords = sys.argv[1:]\n"
        f"if '--import' in words:\n    print({raw(launch())!r} if 'raw' in words else '')\n    sys.exit()\n"
        "at = words.index('--export') + 1\npathlib.Path(words[at] + '.ncu-rep').write_text('')\n"
        "sys.exit(subprocess.call(words[at + 1 :]))"
    )
    tool.chmod(0o755)
    report = ncu.count(op_request("gelu", do="count"), tmp_path / "gelu.ncu-rep", str(tool))
    assert [(answer["impl"], answer["status"]) for answer in report.answers] == [("manual", "ok")]
    assert report.answers[0]["cost"]["bytes_read"] == 128
    assert [read.name for read in report.launches] == ["map_flat"]


def test_an_error_of_the_listing_process_is_passed_on(tmp_path):
    with pytest.raises(UserError, match="this machine has no GPU"):
        ncu.list_impls(op_request("gelu"), tmp_path / "impls.json")
