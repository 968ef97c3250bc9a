"""A repeated call takes little more host time than PyTorch's own op."""

import statistics
import subprocess
import sys
import time

import pytest
import torch
import torch.nn.functional as F

import kernellab as kl
from support.klab import HERE, klab_env

K = kl.functional


def host_time_us(*functions, calls=500, rounds=15):
    """The median time of a call of each function, measured by turns."""
    times = [[] for _ in functions]
    for _ in range(rounds):
        for function, samples in zip(functions, times, strict=True):
            begin = time.perf_counter_ns()
            for _ in range(calls):
                function()
            samples.append((time.perf_counter_ns() - begin) / calls / 1000)
    return [statistics.median(samples) for samples in times]


@pytest.mark.clocked
def test_a_repeated_call_without_the_drivers_time_takes_no_more_than_1_3_times_pytorchs_on_the_cpu(silent_driver):
    """PyTorch's ops compute here too, but on a tensor so small that it takes a fraction of the time."""
    x = torch.ones(8)
    q, table = torch.ones(1, 1, 2, 4), torch.ones(2, 2)
    pairs = {
        "softmax": (lambda: K.softmax(x, -1), lambda: F.softmax(x, -1)),
        "layer_norm": (lambda: K.layer_norm(x, (8,), x, x), lambda: F.layer_norm(x, (8,), x, x)),
        "rope": (lambda: K.rope(q, q, table, table), lambda: F.gelu(x)),
        "add_rms_norm": (lambda: K.add_rms_norm(x, x, (8,), x, 1e-6), lambda: F.gelu(x)),
    }
    for name, (ours, theirs) in pairs.items():
        for _ in range(5):
            ours()
        our_time, their_time = host_time_us(ours, theirs)
        assert our_time <= 1.3 * their_time, (name, our_time, their_time)


def test_the_benchmark_of_host_time_makes_its_page(tmp_path):
    command = [sys.executable, str(HERE.parent / "benchmarks" / "host_cost.py"), "--device", "cpu"]
    page = tmp_path / "page.md"
    done = subprocess.run(
        [*command, "--rounds", "2", "--calls", "2", "--page", str(page)], env=klab_env(), capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "33 figures are within 1.3 times PyTorch's host time" in page.read_text()
    assert page.read_text().count("\n| `") == 33
