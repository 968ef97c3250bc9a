"""The timers that exist: each class declares everything about its timer, and adding a module adds a timer."""

import shutil
import subprocess
import sys

import pytest
import torch

from kernellab.timing import timers
from kernellab.timing.timer import BurstTimer, ProfilerTimer
from kernellab.timing.timers import TIMERS, burst_timer, default_timer, is_duration, timer_help, timers_on
from support.klab import SRC, klab_env

STOPWATCH = '''
"""A timer that a contributor might add."""

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


@pytest.mark.parametrize("timer", TIMERS.values(), ids=TIMERS)
def test_a_timer_declares_all_its_attributes(timer):
    assert timer.devices
    assert set(timer.devices) <= {"cuda", "cpu"}
    assert set(timer.default_on) <= set(timer.devices)
    assert set(timer.panel_caches) <= set(timer.caches) <= {"cold", "warm"}
    assert timer.panel_caches
    assert timer.measures
    assert timer.help
    assert timer.name in timer_help()
    assert timer.needs_profiler == issubclass(timer, ProfilerTimer) != issubclass(timer, BurstTimer)


@pytest.mark.parametrize("device", ["cuda", "cpu"])
def test_no_two_timers_of_a_device_have_the_same_place_in_the_panel(device):
    by_rank = {}
    for timer in timers_on(device):
        by_rank.setdefault(timer.overhead_rank, []).append(timer.name)
    shared = {rank: names for rank, names in by_rank.items() if len(names) > 1}
    assert not shared, f"timers with the same overhead_rank: {shared}"


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("", "unfinished has no timer: it needs a subclass of BurstTimer"),
        (
            "from kernellab.timing.timer import BurstTimer\nclass Mine(BurstTimer):\n    name = 'mine'\n",
            "Mine lacks devices, overhead_rank, measures, help",
        ),
    ],
)
def test_an_unfinished_timer_is_refused_by_what_it_lacks(source, message, tmp_path, monkeypatch):
    (tmp_path / "unfinished.py").write_text(source)
    monkeypatch.setattr(timers, "__path__", [str(tmp_path)])
    monkeypatch.delitem(sys.modules, "kernellab.timing.timers.unfinished", raising=False)
    with pytest.raises(TypeError, match=message):
        timers._discover()


@pytest.mark.parametrize("device", ["cuda", "cpu"])
def test_each_device_has_one_default_timer_that_measures_durations(device):
    defaults = [timer for timer in TIMERS.values() if device in timer.default_on]
    assert defaults == [default_timer(device)] == timers_on(device)[:1]
    assert defaults[0].is_duration
    assert not defaults[0].on_host


def test_an_unknown_timer_counts_as_a_duration():
    assert not is_duration("launch")
    assert is_duration("host")
    assert is_duration("a timer of another installation")


def test_the_default_on_the_cpu_is_the_clock():
    assert burst_timer(torch.device("cpu")).name == "clock"


def test_the_attributes_of_timers_are_read_without_torch():
    code = "import sys\nfrom kernellab.timing.timers import TIMERS\nassert TIMERS and 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, env=klab_env())


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
