"""Every child process ends with its parent, and so does everything the child has started."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kernellab.running.processes.child import Child
from kernellab.running.processes.startup import program
from support.klab import klab_env
from support.processes import is_running, wait_until

# A command that starts another process in a session of its own and prints the PIDs of both.
FAMILY = """
import os, subprocess, sys, time
grandchild = subprocess.Popen(["sleep", "300"], start_new_session=True)
print(os.getpid(), grandchild.pid, flush=True)
time.sleep(300)
"""
PARENT = """
import sys, time
from pathlib import Path
from kernellab.running.processes.child import Child
child = Child([sys.executable, "-c", sys.argv[2]], {}, output=Path(sys.argv[1]))
print("started", flush=True)
time.sleep(300)
"""


def pids_in(log: Path) -> list[int]:
    wait_until(lambda: log.exists() and log.read_text().count("\n") >= 1)
    return [int(word) for word in log.read_text().split()]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_child_and_what_it_started_end_with_the_parent(tmp_path, number):
    log = tmp_path / "log"
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, str(log), FAMILY], env=klab_env(), stdout=subprocess.PIPE, text=True
    )
    family = pids_in(log)
    assert all(is_running(pid) for pid in family)
    parent.send_signal(number)
    parent.wait()
    wait_until(lambda: not any(is_running(pid) for pid in family))


def test_ending_a_child_ends_what_it_started(tmp_path):
    log = tmp_path / "log"
    child = Child([sys.executable, "-c", FAMILY], dict(os.environ), output=log)
    family = pids_in(log)
    child.end()
    wait_until(lambda: not any(is_running(pid) for pid in family))


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("raise SystemExit(7)", 7),
        ("import os; os.kill(os.getpid(), 11)", -signal.SIGSEGV),
        ("import os; os.kill(os.getpid(), 9)", -signal.SIGKILL),
    ],
)
def test_the_exit_code_or_signal_of_a_child_is_reported(tmp_path, code, expected):
    child = Child([sys.executable, "-c", code], dict(os.environ), output=tmp_path / "log")
    assert child.wait(30) == expected
    child.end()


def test_a_child_inherits_the_given_descriptors_and_nothing_else_keeps_them_open(tmp_path):
    reader, writer = os.pipe()
    code = f"import os; os.write({writer}, b'hello')"
    child = Child([sys.executable, "-c", code], dict(os.environ), output=tmp_path / "log", inherited=[writer])
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        assert pipe.read() == b"hello"  # returns because no copy of the writer stays open
    child.wait(30)
    child.end()


def test_on_a_terminal_sigterm_reaches_the_program(tmp_path):
    script = (
        "import signal, sys, time\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(5))\n"
        "print('ready', flush=True)\ntime.sleep(60)"
    )
    reader, writer = os.pipe()
    child = Child([sys.executable, "-c", script], dict(os.environ), on_terminal=True, stdout=writer)
    os.close(writer)
    assert os.read(reader, 5) == b"ready"
    child.terminate()
    assert child.wait(30) == 5
    child.end()
    os.close(reader)


def test_a_program_of_kernellab_starts_without_the_working_directory_first(tmp_path):
    (tmp_path / "json.py").write_text("raise SystemExit('hidden')")
    command = program("kernellab.running.programs.mlp", "{}")
    done = subprocess.run(command, cwd=tmp_path, env=klab_env(), capture_output=True, text=True)
    assert "hidden" not in done.stderr
