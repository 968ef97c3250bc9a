"""The timers that exist: each class says everything about its timer, and adding one is adding a module."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from kernellab.timing.timer import BurstTimer, ProfilerTimer
from kernellab.timing.timers import TIMERS, burst_timer, default_timer, is_duration, timer_help, timers_on
from support.klab import HERE, SRC, klab_env

STOPWATCH = '''
"""A timer as a contributor would add it."""

from kernellab.timing.timer import Burst, BurstTimer


class Stopwatch(BurstTimer):
    name = "stopwatch"
    devices = ("cpu",)
    caches = panel_caches = ("warm",)
    overhead_rank = 9
    measures = "always 1.25 µs"
    help = "a constant"

    def burst(self, impl, spec):
        numbers = impl.draw(spec.calls, distinct=True)
        for call in impl.prepare_calls(numbers):
            result = call()
        spec.verify(result, numbers[-1])
        return Burst([1.25] * spec.windows)
'''


def undocumented(page: Path) -> set[str]:
    """Timers without a row in the page's table."""
    return TIMERS.keys() - set(re.findall(r"^\| `(\w+)`", page.read_text(), re.MULTILINE))


@pytest.mark.parametrize("timer", TIMERS.values(), ids=TIMERS)
def test_a_timer_says_everything_about_itself(timer):
    assert timer.devices
    assert set(timer.devices) <= {"cuda", "cpu"}
    assert set(timer.default_on) <= set(timer.devices)
    assert set(timer.panel_caches) <= set(timer.caches) <= {"cold", "warm"}
    assert timer.panel_caches
    assert timer.measures
    assert timer.help
    assert timer.name in timer_help()
    assert timer.needs_profiler == issubclass(timer, ProfilerTimer) != issubclass(timer, BurstTimer)


def test_no_two_timers_have_the_same_place_in_the_panel():
    assert len({timer.overhead_rank for timer in TIMERS.values()}) == len(TIMERS)


@pytest.mark.parametrize("device", ["cuda", "cpu"])
def test_each_device_has_one_default_timer_that_measures_durations(device):
    defaults = [timer for timer in TIMERS.values() if device in timer.default_on]
    assert defaults == [default_timer(device)] == timers_on(device)[:1]
    assert defaults[0].is_duration
    assert not defaults[0].on_host


def test_a_timer_that_is_not_installed_here_counts_as_a_duration():
    assert not is_duration("launch")
    assert is_duration("host")
    assert is_duration("a timer of another installation")


def test_the_default_on_the_cpu_is_the_clock():
    assert burst_timer(torch.device("cpu")).name == "clock"


def test_the_attributes_of_timers_are_read_without_torch():
    code = "import sys\nfrom kernellab.timing.timers import TIMERS\nassert TIMERS and 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, env=klab_env())


def test_every_timer_is_documented():
    assert undocumented(HERE.parent / "docs" / "timing.md") == set()


def test_a_timer_is_added_by_adding_a_module(klab, tmp_path):
    source = tmp_path / "src"
    shutil.copytree(SRC, source, ignore=shutil.ignore_patterns("__pycache__"))
    (source / "kernellab" / "timing" / "timers" / "stopwatch.py").write_text(STOPWATCH)
    assert "stopwatch (a constant)" in " ".join(klab("bench", "--help", PYTHONPATH=str(source)).out.split())
    args = ("square", "--shape", "64x64", "--impl", "manual", "--device", "cpu", "--seconds", "0.05")
    timed = klab("bench", *args, "--timer", "stopwatch", "--json", PYTHONPATH=str(source))
    assert timed.code == 0, timed.err
    assert timed.result("manual")["derived"]["time"]["median_us"] == 1.25
    panel = klab("bench", *args, "--panel", PYTHONPATH=str(source))
    assert "always 1.25 µs" in " ".join(panel.out.split())
