"""The process between a parent and a command: it ends the command when the parent ends.

User code cannot block it: it starts the command, waits for its end, and watches a pipe that
closes whenever the parent ends. It ends as the command does: with the same exit code or signal.

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


def main() -> None:
    lifeline, own_session = int(sys.argv[1]), sys.argv[2] == "session"
    os.set_inheritable(lifeline, False)
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
    if code < 0:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        with contextlib.suppress(OSError):  # SIGKILL has no handler to reset
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code if code >= 0 else 128 - code)


def kill_tree(head: int, *, own_session: bool) -> None:
    """Kill everything a process has started, then the process, with its whole group if it leads a session."""
    with contextlib.suppress(Exception):  # gone already
        import psutil

        for descendant in psutil.Process(head).children(recursive=True):
            with contextlib.suppress(psutil.Error):
                descendant.kill()
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if own_session:
            os.killpg(head, signal.SIGKILL)  # last, because the head may be the caller
        else:
            os.kill(head, signal.SIGKILL)


if __name__ == "__main__":
    main()
