"""Locks between processes."""

import subprocess
import sys

from kernellab.base.file_lock import is_locked, locked, try_lock
from support.klab import klab_env

HOLD = """
import sys, time
from pathlib import Path
from kernellab.base.file_lock import try_lock
file = Path(sys.argv[1]).open("ab")
assert try_lock(file)
print("locked", flush=True)
time.sleep(60)
"""


def test_a_lock_is_seen_by_others_and_ends_with_its_process(tmp_path):
    path = tmp_path / "file"
    holder = subprocess.Popen([sys.executable, "-c", HOLD, path], stdout=subprocess.PIPE, env=klab_env())
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"locked\n"
    with path.open("ab") as file:
        assert is_locked(path)
        assert not try_lock(file, wait_s=0.05)
        holder.kill()
        holder.wait()
        assert not is_locked(path)
        assert try_lock(file)
        assert is_locked(path)
    assert not is_locked(path)


def test_a_missing_file_is_not_locked_and_a_lock_creates_it(tmp_path):
    assert not is_locked(tmp_path / "file")
    with locked(tmp_path / "file"):
        assert is_locked(tmp_path / "file")
    assert not is_locked(tmp_path / "file")
