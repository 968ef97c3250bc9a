"""The files drawn beside a trace."""

import json

from kernellab.reporting.pages import pictures
from kernellab.traces.builder import TraceBuilder
from kernellab.traces.trace import Kind, Lane

THREAD, STREAM = Lane("python 1", "thread 1"), Lane("GPU 0", "stream 7", 0, 7)


def build_trace(*, gpu):
    builder = TraceBuilder("kineto")
    builder.add(Kind.OPERATOR, builder.name("aten::mm"), builder.lane(THREAD), 0, 1000)
    if gpu:
        builder.add(Kind.KERNEL, builder.name("gemm"), builder.lane(STREAM), 500, 1000)
    return builder.build()


def test_cpu_time_is_drawn_if_nothing_ran_on_a_gpu(tmp_path):
    written = pictures.draw(build_trace(gpu=False), tmp_path / "x.json", "title")
    assert {path.name for path in written} == {"x.html", "x.svg", "x.txt", "x.speedscope.json"}
    assert set(written) == set(tmp_path.iterdir())
    assert (tmp_path / "x.txt").read_text() == "aten::mm 1000\n"


def test_gpu_time_comes_first_and_cpu_time_has_its_own_files(tmp_path):
    written = pictures.draw(build_trace(gpu=True), tmp_path / "x.json", "title")
    assert {path.name for path in written} == {
        *("x.html", "x.svg", "x.txt", "x-cpu.svg", "x-cpu.txt", "x.speedscope.json")
    }
    assert "gemm 1000" in (tmp_path / "x.txt").read_text()
    assert "aten::mm 1000" in (tmp_path / "x-cpu.txt").read_text()
    profiles = json.loads((tmp_path / "x.speedscope.json").read_text())["profiles"]
    assert [profile["name"] for profile in profiles] == ["GPU time", "CPU time"]


def test_stacks_alone_can_be_drawn(tmp_path):
    written = pictures.draw_stacks(build_trace(gpu=True), tmp_path / "stacks_x", "title")
    assert {path.name for path in written} == {"stacks_x.svg", "stacks_x.txt"}


def test_prepared_links_are_not_followed(tmp_path):
    mine = tmp_path / "mine.txt"
    mine.write_text("mine")
    for suffix in ("html", "svg", "txt", "speedscope.json"):
        (tmp_path / f"x.{suffix}").symlink_to(mine)
    written = pictures.draw(build_trace(gpu=False), tmp_path / "x.json", "title")
    assert not any(path.is_symlink() for path in written)
    assert mine.read_text() == "mine"
