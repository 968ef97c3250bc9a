"""The process between a parent and a command: it ends the command when the parent ends.

User code cannot block it: it starts the command, waits for its end, and watches a pipe that
closes whenever the parent ends. It ends as the command does: with the same exit code or signal. A command with a
session of its own leaves nothing running.

`child` starts it as a file, outside the package: it imports nothing of kernellab.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import subprocess
import sys
import threading
import time

_PR_SET_CHILD_SUBREAPER = 36  # as in linux/prctl.h
_ROUNDS_OF_KILLING = 100


def main() -> None:
    lifeline, own_session = int(sys.argv[1]), sys.argv[2] == "session"
    os.set_inheritable(lifeline, False)
    if own_session:
        adopt_orphans()
    process = subprocess.Popen(sys.argv[3:], close_fds=False)
    # The command has inherited these. If they stayed open here, the parent would not notice the command's end.
    os.closerange(3, lifeline)
    os.closerange(lifeline + 1, 1024)
    # A handler, unlike SIG_IGN, is not inherited by programs. Ctrl-C in a terminal reaches the command directly.
    signal.signal(signal.SIGINT, lambda number, frame: None)
    signal.signal(signal.SIGTERM, lambda number, frame: process.terminate())

    parent_gone = threading.Event()

    def end_with_parent() -> None:
        os.read(lifeline, 1)
        parent_gone.set()
        kill_tree(os.getpid(), own_session=own_session)

    watcher = threading.Thread(target=end_with_parent, daemon=True)
    watcher.start()
    code = process.wait()
    if parent_gone.is_set():
        watcher.join()  # the command has ended; what it started may still be running
    if own_session:
        end_children()
    if code < 0:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        with contextlib.suppress(OSError):  # SIGKILL has no handler to reset
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code if code >= 0 else 128 - code)


def adopt_orphans() -> None:
    """From now on, descendants whose own parent has ended are children of this process, where Linux provides that: a
    worker that ends when its connection closes would otherwise leave what it has started to nobody."""
    with contextlib.suppress(Exception):
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def end_children() -> None:
    """Kill all descendants, if there are any."""
    for _ in range(_ROUNDS_OF_KILLING):  # a process that is being killed may have started another
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
            _kill_descendants(os.getpid())
            time.sleep(0.01)
            continue
        return  # no child is left


def _kill_descendants(head: int) -> None:
    with contextlib.suppress(Exception):  # gone already
        import psutil

        for descendant in psutil.Process(head).children(recursive=True):
            with contextlib.suppress(psutil.Error):
                descendant.kill()


def kill_tree(head: int, *, own_session: bool) -> None:
    """Kill everything a process has started, then the process, with its whole group if it leads a session."""
    _kill_descendants(head)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if own_session:
            os.killpg(head, signal.SIGKILL)  # last, because the head may be the caller
        else:
            os.kill(head, signal.SIGKILL)


if __name__ == "__main__":
    main()
