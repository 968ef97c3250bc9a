"""Workers are forked from one process, are independent of each other, and end with it."""

import os
import signal
import socket
import subprocess
import sys

import psutil
import pytest

from kernellab.record.settings import NO_CASES, Settings
from kernellab.running.parent.worker_slot import WorkerSlot
from kernellab.running.processes.worker_template import WorkerTemplate
from support.klab import klab_env
from support.processes import is_running, wait_until

NOT_IMPORTED = "triton", "sympy", "torch._dynamo"


@pytest.fixture
def template():
    template = WorkerTemplate()
    yield template
    template.close()


@pytest.fixture
def start(template, tmp_path):
    """Starts a worker; its slot, once it has chosen a device."""

    def start(kind="native"):
        settings = Settings(targets=[], stages=[], request=NO_CASES, device="cpu")
        slot = WorkerSlot(None, kind, settings, tmp_path / f"{kind}.log", template)
        slot.ready()
        return slot

    return start


def test_workers_have_sessions_and_logs_of_their_own(start, tmp_path):
    first, second = start(), start("interpreter")
    pids = [slot.device.pid for slot in (first, second)]
    assert len({*pids, os.getpid()}) == 3
    assert [os.getsid(pid) for pid in pids] == pids
    assert psutil.Process(pids[0]).ppid() == psutil.Process(pids[1]).ppid()
    first.close()
    assert [is_running(pid) for pid in pids] == [False, True]
    assert {file.name for file in tmp_path.iterdir()} == {"native.log", "interpreter.log"}


def test_how_a_worker_ended_is_known(template, tmp_path):
    ours, theirs = socket.socketpair()
    with ours, theirs:
        worker = template.fork("native", theirs, tmp_path / "log")
    assert worker.wait(60) == 1  # it finds its connection closed
    worker.end()
    ours, theirs = socket.socketpair()
    with ours, theirs:
        worker = template.fork("native", theirs, tmp_path / "log")
        with pytest.raises(subprocess.TimeoutExpired):
            worker.wait(1)
        worker.end()
        assert worker.wait(0) == -signal.SIGKILL


def test_a_template_that_was_killed_is_replaced_and_its_workers_can_still_be_ended(start, template):
    first = start()
    killed = psutil.Process(first.device.pid).parent()
    killed.kill()
    second = start()
    assert psutil.Process(second.device.pid).parent() != killed
    first.close()
    template.close()
    wait_until(lambda: not any(is_running(slot.device.pid) for slot in (first, second)))


def test_the_template_imports_nothing_that_workers_decide_about_or_may_not_need():
    code = (
        "import sys, importlib, threading\n"
        "from kernellab.running.worker import template\n"
        "for module in template._IMPORTED: importlib.import_module(module)\n"
        f"print([name for name in {NOT_IMPORTED} if name in sys.modules], threading.active_count())\n"
        "import torch; print(torch.cuda.is_initialized())"
    )
    done = subprocess.run([sys.executable, "-c", code], env=klab_env(), capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[:2] == ["[] 1", "False"]
