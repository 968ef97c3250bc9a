"""Progress in a notebook: few updates of one display, escaped, and nothing left at the end."""

import re
import subprocess
import sys

from kernellab.reporting.notebook.progress import NotebookProgress, notebook_progress
from support.klab import klab_env

CASE = {"dims": {"N": 64}, "dtype": "float32", "options": {}, "layout": "contiguous", "device": "cpu"}


class Shown(list):
    def update(self, html):
        self.append(html)


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


def value(html):
    return tuple(map(int, re.search(r'value="(\d+)" max="(\d+)"', html).groups()))


def test_it_counts_steps_and_updates_rarely():
    shown, clock = Shown(), Clock()
    progress = NotebookProgress(shown, clock)
    progress.say("loading <b>")
    progress.begin_groups([4, 4])
    for phase in ("check", "check", "build", "time"):
        for impl in ("manual", "torch"):
            clock.now += 0.5
            progress.show_phase("f", CASE, impl, phase)
    assert value(shown[-1]) == (4, 8)  # a step is counted once
    assert "time torch" in shown[-1]
    assert "loading &lt;b&gt;" in shown[0]
    before = len(shown)
    for number in range(1000):
        clock.now += 0.001
        progress.show_trial("f", "cpp", number, 1000)
    assert 3 <= len(shown) - before <= 6
    progress.stop()
    assert shown[-1] == ""


def test_trials_of_the_search_are_named():
    shown, clock = Shown(), Clock()
    progress = NotebookProgress(shown, clock)
    clock.now += 1
    progress.show_trial("f", "cpp", 11, 10)
    assert "searching" in shown[-1]
    assert value(shown[-1]) == (10, 10)


def test_outside_a_notebook_there_is_none_and_ipython_is_not_imported():
    assert notebook_progress() is None
    code = (
        "import sys; from kernellab.reporting.notebook.progress import notebook_progress; "
        "assert notebook_progress() is None; assert 'IPython' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env=klab_env())
