"""The text of a file is read in chunks; damaged or endless gzip data does not stop or exhaust the reader."""

import gzip
import tracemalloc

from kernellab import traces
from kernellab.traces import chrome_events, kineto, text_chunks
from support.chrome_traces import event, many, text_of, written


def test_text_longer_than_a_chunk_is_read_completely(tmp_path):
    names = [f"op {number} " + "x" * (number % 700) for number in range(3000)]
    events = [event(name, number, 0.5) for number, name in enumerate(names)]
    trace = traces.read(written(tmp_path / "t.json", events))
    assert [trace.name_of(row) for row in range(len(trace))] == names
    assert not trace.notes


def test_damaged_gzip_gives_the_events_before_the_damage(tmp_path):
    compressed = bytearray(gzip.compress(text_of(many(4000)).encode()))
    middle = len(compressed) // 2
    path = tmp_path / "t.json.gz"
    for damaged, message in (
        (compressed[:middle], "truncated"),
        (compressed[:middle] + b"\xff" * 40 + compressed[middle + 40 :], "is damaged"),
        (compressed[:-8] + b"\0" * 8, "is damaged"),
    ):
        path.write_bytes(bytes(damaged))
        trace = traces.read(path)
        assert len(trace) > 1500
        assert any(message in note for note in trace.notes), trace.notes
        assert [trace.name_of(row) for row in range(1500)] == [f"op {number}" for number in range(1500)]


def test_endless_compressed_white_space_is_not_read_to_its_end(tmp_path, monkeypatch):
    monkeypatch.setattr(chrome_events, "_MAX_BLANK", 1 << 20)
    path = tmp_path / "t.json.gz"
    path.write_bytes(gzip.compress(text_of(many(5)).encode()[:-2] + b" " * (30 << 20)))
    sizes = []
    read_chunks = text_chunks.read_chunks

    def counting(*args):
        for chunk in read_chunks(*args):
            sizes.append(len(chunk))
            yield chunk

    monkeypatch.setattr(kineto, "read_chunks", counting)
    assert len(traces.read(path)) == 5
    assert sum(sizes) < 3 << 20


def test_endless_compressed_text_is_read_up_to_the_limit(tmp_path, monkeypatch):
    monkeypatch.setattr("kernellab.traces.text_chunks._MAX_TEXT", 1 << 20)
    path = tmp_path / "t.json.gz"
    path.write_bytes(gzip.compress(text_of(many(5)).encode()[:-2] + b" " * (30 << 20)))
    tracemalloc.start()
    trace = traces.read(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(trace) == 5
    assert any("Only the first" in note for note in trace.notes)
    assert peak < 10 << 20


def test_memory_does_not_grow_with_the_file(tmp_path):
    path = written(tmp_path / "t.json", [event("a", number, 1, unread="x" * 2000) for number in range(10_000)])
    tracemalloc.start()
    traces.read(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < path.stat().st_size / 3
