"""Progress on standard error."""

import io

import pytest
from rich.console import Console

from kernellab.reporting.terminal.progress import LiveProgress, PlainProgress

CASE = {"dims": {"...": [8]}, "dtype": "float32", "options": {}, "layout": "contiguous", "device": "cpu"}


@pytest.mark.parametrize(
    ("phase", "text"),
    [
        ("check", "f 8 · float32: checking torch"),
        ("gradients", "f 8 · float32: checking the gradients of torch"),
        ("build", "f 8 · float32: building torch"),
        ("time", "f 8 · float32: timing torch"),
        ("profile", "f 8 · float32: profiling torch"),
        ("something new", "f 8 · float32: something new torch"),
    ],
)
def test_a_terminal_shows_what_is_running(phase, text):
    out = io.StringIO()
    progress = LiveProgress(Console(file=out, force_terminal=True, width=120))
    progress.begin_groups([2])
    progress.show_phase("f", CASE, "torch", phase)
    progress._bar.refresh()
    progress.stop()
    assert text in out.getvalue()


def test_a_terminal_counts_each_step_once_and_ends_with_its_case():
    progress = LiveProgress(Console(file=io.StringIO(), force_terminal=True))
    (task,) = progress._bar.tasks
    progress.begin_groups([2, 3])
    for phase in ("check", "check", "build", "time", "time"):
        progress.show_phase("f", CASE, "torch", phase)
    assert (task.completed, task.total) == (2, 5)
    progress.finish_group()
    progress.show_phase("f", CASE, "torch", "check")
    assert task.completed == 3
    progress.finish_group()
    assert task.completed == 5
    progress.stop()


def test_a_log_has_a_line_for_each_finished_case(capsys):
    progress = PlainProgress()
    progress.begin_groups([2, 2])
    for _ in range(2):
        progress.show_phase("f", CASE, "torch", "check")
        progress.finish_group()
    lines = [line.split(" s  ")[1] for line in capsys.readouterr().err.splitlines()]
    assert lines == ["[1/2] f 8 · float32", "[2/2] f 8 · float32"]
