"""What docs/compare.md prints is what the commands print."""

import re
import tarfile

import pytest

from support.klab import HERE

PAGE = (HERE.parent / "docs" / "compare.md").read_text()
SESSIONS = re.findall(r"```session\n\$ klab (.*?)\n(.*?)```", PAGE, flags=re.DOTALL)


@pytest.fixture
def records(tmp_path):
    with tarfile.open(HERE / "samples" / "records_h200.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")


def test_the_page_shows_a_comparison():
    assert SESSIONS


@pytest.mark.usefixtures("records")
@pytest.mark.parametrize(("command", "output"), SESSIONS)
def test_the_output_is_as_printed(klab, tmp_path, command, output):
    done = klab(*command.split(), KERNELLAB_CACHE=str(tmp_path / "cache"))
    printed = "\n".join(line.rstrip() for line in done.out.splitlines())
    assert printed == output.rstrip(), done.err
