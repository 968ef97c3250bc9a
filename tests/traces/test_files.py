"""A trace is read from a file of any supported kind; a file that is not a trace is refused with the reason."""

import gzip

import pytest

from kernellab import traces
from kernellab.base.errors import UserError
from support.chrome_traces import a_step, written


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"  \n ", "is empty"),
        (b"<html></html>", "is not JSON"),
        (b"\x7fELF\0\0", "is not JSON"),
        (b'{"a": 1}', "has no list `traceEvents`"),
        (b'{"traceEvents": 7}', "has no list `traceEvents`"),
        (b"{nothing that is any JSON}", "is not valid JSON from character 1 on"),
        (b'{"a": {"b": [1, 2, "c', "is truncated before its first event"),
        (b'{"traceEv', "is truncated before its first event"),
        (gzip.compress(b"", mtime=0), "is empty"),
        (gzip.compress(b"no", mtime=0)[:10], "is empty. The gzip data is truncated"),
        (b"\x1f\x8b", "is empty"),
        (b"NVIDIA Tegra Profiler Report 2023", "nsys export --type sqlite"),
        (gzip.compress(b"NVIDIA Tegra Profiler Report 2023", mtime=0), "nsys export --type sqlite"),
        (gzip.compress(b"SQLite format 3\0and more", mtime=0), "compressed by gzip. Decompress it: gunzip --keep"),
    ],
)
def test_a_file_that_is_not_a_trace_is_refused_with_the_reason(tmp_path, content, message):
    path = tmp_path / "t.json"
    path.write_bytes(content)
    with pytest.raises(UserError, match=message):
        traces.read(path)


def test_a_path_that_is_not_a_file_is_refused(tmp_path):
    with pytest.raises(UserError, match="is a folder"):
        traces.read(tmp_path)
    with pytest.raises(UserError, match="There is no file"):
        traces.read(tmp_path / "none.json")
    with pytest.raises(UserError, match="not a file on disk"):
        traces.read("/dev/zero")
    with pytest.raises(UserError, match="cannot be read: File name too long"):
        traces.read("x" * 5000)


def test_traces_are_ordered_by_rank_if_all_state_it(tmp_path):
    second, first = (written(tmp_path / f"{rank}.json", a_step(), distributedInfo={"rank": rank}) for rank in (1, 0))
    assert [trace.metadata["rank"] for trace in traces.read_all([second, first])] == [0, 1]
    unranked = written(tmp_path / "none.json", a_step())
    assert [trace.metadata.get("rank") for trace in traces.read_all([second, unranked, first])] == [1, None, 0]
