"""`kl.profile`: where the time of any callable goes, in one call."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kernellab.base.errors import UserError

_LONGEST_NAME = 200  # bytes; file systems take 255, with what stands before and after it


class Profile(str):
    """The table, reading as a string; `.document` holds all that was found, `.files` what was written."""

    description: str
    document: dict[str, Any]
    files: list[Path]

    def __repr__(self) -> str:  # a notebook shows a value by its repr
        return str(self)


def profile(
    description: str, run: Callable[[], Any], num_warmups: int = 1, with_stack: bool = False, *, folder: str = "."
) -> Profile:
    """Profile one call of `run()` after warming up: operators and kernels by GPU time, or CPU time without a GPU.

    Writes `trace_<description>.json`, and self time by call stack as `stacks_<description>.txt` and `.svg`, a flame
    graph. `with_stack` records Python's calls too: stacks, modules and lines of code, at a price.
    """
    if num_warmups < 0:
        raise UserError("num_warmups must be at least 0")
    import torch

    from kernellab.analysis.summary import analyse
    from kernellab.profiler.session import How, Session
    from kernellab.reporting.pages.pictures import draw_stacks
    from kernellab.reporting.profiles.summary import lines
    from kernellab.traces.files import read

    synchronise = torch.cuda.synchronize if torch.cuda.is_available() else lambda: None
    for _ in range(num_warmups):
        run()
    synchronise()
    name, where = _file_name(description), Path(folder)
    session = Session(where, f"trace_{name}", how=How(stacks=with_stack), numbered=False)
    session.start()
    try:
        run()
        synchronise()
    finally:
        session.stop()
    if not session.traces:
        raise UserError(f"kl.profile: {'; '.join(session.notes)}")
    path = where / session.traces[0]
    trace = read(path)
    document = analyse(trace)
    made = Profile("\n".join(lines(document, sort=None, rows=10, name_width=80)))
    made.description, made.document, made.files = description, document, [path]
    made.files += draw_stacks(trace, where / f"stacks_{name}", description)
    return made


def _file_name(description: str) -> str:
    name = "".join(c if c.isalnum() or c in "-_." else "_" for c in description) or "run"
    whole = name.encode()
    if len(whole) <= _LONGEST_NAME:
        return name
    start = whole[:_LONGEST_NAME].decode(errors="ignore")
    return f"{start}-{hashlib.sha256(whole).hexdigest()[:8]}"  # two that begin alike stay two
