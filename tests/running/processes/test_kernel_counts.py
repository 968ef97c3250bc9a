"""What the system counts of a process."""

import mmap
import os
import threading
import time
from pathlib import Path

import pytest

from kernellab.running.processes.kernel_counts import KernelCounts, page_fault_us, read_kernel_counts

PAGES = 2000


def counts(ran_us, waited_us, *, page_faults=0, system_us=0.0):
    return KernelCounts(1, ran_us, waited_us, page_faults, system_us)


def test_only_threads_that_compute_are_delayed():
    before = counts({1: 100.0, 2: 0.0}, {1: 10.0, 2: 0.0})
    after = counts({1: 105.0, 2: 900.0, 3: 5.0}, {1: 60.0, 2: 200.0, 3: 500.0})
    # The main thread (1) counts though it hardly ran; thread 3 ran for 5 of 1000 µs and is no part of the computation.
    assert after.delay_since(before, 1000.0) == 250.0
    assert after.ran_since(before) == 910.0


def test_mapping_is_the_time_in_the_system_or_by_faults():
    before = counts({}, {})
    assert counts({}, {}).mapping_since(before) == 0
    assert counts({}, {}, system_us=10_000.0).mapping_since(before) == 0  # one tick
    assert counts({}, {}, system_us=50_000.0).mapping_since(before) == 50_000.0
    assert counts({}, {}, page_faults=1_000_000).mapping_since(before) > 10_000


@pytest.mark.skipif(not Path("/proc/self/schedstat").exists(), reason="no /proc/PID/schedstat")
def test_this_process_is_counted():
    before = read_kernel_counts(os.getpid())
    with mmap.mmap(-1, PAGES * mmap.PAGESIZE) as memory:
        for page in range(PAGES):
            memory[page * mmap.PAGESIZE] = 1
        end = time.thread_time() + 0.05
        while time.thread_time() < end:
            pass
        after = read_kernel_counts(os.getpid())
    thread = threading.get_native_id()
    assert after.ran_us[thread] - before.ran_us.get(thread, 0.0) > 40_000
    assert after.page_faults - before.page_faults > 0
    assert after.delay_since(before, 50_000.0) >= 0


def test_a_page_fault_takes_a_measurable_time_and_an_ended_process_has_no_counts():
    assert 0 <= page_fault_us() < 1000
    assert read_kernel_counts(2**22 + 1) == KernelCounts(2**22 + 1, {}, {}, 0, 0.0)
