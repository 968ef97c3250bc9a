"""`kl.profile`: where the time of a callable goes, in one call."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from kernellab.base.errors import UserError

if TYPE_CHECKING:
    from kernellab.analysis.document import ProfileDocument

_NAME_BYTES = 200  # of a file: file systems take 255, with the parts before and after it


class Profile(str):
    """The tables as a string; `.document` holds the whole analysis, `.files` the files written."""

    description: str
    document: ProfileDocument
    files: list[Path]

    def __repr__(self) -> str:  # notebooks show the repr of a value
        return str(self)


def profile(
    description: str, run: Callable[[], object], num_warmups: int = 1, with_stack: bool = False, *, folder: str = "."
) -> Profile:
    """Profile one call of `run()` after warm-up calls: operators and kernels by GPU time, or by CPU time without a GPU.

    Writes `trace_<description>.json`, and self time by call stack as `stacks_<description>.txt` and `.svg`, a flame
    graph. `with_stack` also records Python's calls: stacks, modules and source lines, with more overhead.
    """
    if num_warmups < 0:
        raise UserError("num_warmups must be at least 0")
    import torch

    from kernellab.analysis.document import analyse
    from kernellab.profiler.recording import RecordingOptions
    from kernellab.profiler.session import Session
    from kernellab.reporting.pages.pictures import draw_stacks
    from kernellab.reporting.profiles.summary import lines
    from kernellab.traces.files import read

    synchronise = torch.cuda.synchronize if torch.cuda.is_available() else lambda: None
    for _ in range(num_warmups):
        run()
    synchronise()
    name, target = _file_name(description), Path(folder)
    session = Session(target, f"trace_{name}", options=RecordingOptions(stacks=with_stack), numbered=False)
    session.start()
    try:
        run()
        synchronise()
    finally:
        session.stop()
    if not session.traces:
        raise UserError(f"kl.profile: {'; '.join(session.notes)}")
    path = target / session.traces[0]
    trace = read(path)
    document = analyse(trace)
    result = Profile("\n".join(lines(document, sort=None, rows=10, name_width=80)))
    result.description, result.document = description, document
    result.files = [path, *draw_stacks(trace, target / f"stacks_{name}", description)]
    return result


def _file_name(description: str) -> str:
    name = "".join(c if c.isalnum() or c in "-_." else "_" for c in description) or "run"
    encoded = name.encode()
    if len(encoded) <= _NAME_BYTES:
        return name
    start = encoded[:_NAME_BYTES].decode(errors="ignore")
    return f"{start}-{hashlib.sha256(encoded).hexdigest()[:8]}"  # long names stay different
