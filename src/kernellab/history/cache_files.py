"""Which files in the cache are compiled code: those with the names that the writers of the code give them."""

from __future__ import annotations

import os
import re
from pathlib import Path

_HASH = r"[0-9a-f]{24}"  # of build/sources.py
_LONG = r"[a-z0-9]{40,64}"  # of torch and Triton
# Folders of the cache, and what the paths of files in them look like. Measured ceilings, tuned tables and failed trials
# are not among them: they are kept.
_PATHS = {
    "bytecode": r".+\.pyc(\.\d+)?",
    "cpp": rf"[^/]+-{_HASH}(\.\d+)?\.so",
    "extensions": (
        r"[^/]+/(build\.ninja|\.ninja_(log|deps)|\.?lock|\.kernellab-lock|[^/]+\.o|[^/]+\.so|main\.cpp|cuda\.cu)"
    ),
    "inductor": (
        rf"(tmp)?\w{{2}}/{_LONG}(\.\w+)*"  # generated code, and what it compiled to
        rf"|(aotautograd|fxgraph)/((\w{{2}}/)?{_LONG}/)?{_LONG}"
        rf"|locks/{_LONG}\.lock|aotautograd/{_LONG}\.lock"
        r"|triton/(\d+/)?[A-Z0-9]{40,64}/\w+\.(cubin|ptx|ttir|ttgir|llir|json|source|so)"
    ),
    "launcher": rf"{_HASH}(\.\d+)?\.(so|lock|log|failed)",
    "nvrtc": rf"{_HASH}\.(cubin|symbol|ptx)|\.{_HASH}\.(cubin|symbol|ptx)\.\d+",
}
COMPILED = tuple(_PATHS)


def is_compiled(kind: str, path: Path) -> bool:
    """Whether a file of the cache's folder `kind`, or every file in a folder there, is compiled code. A link is not."""
    if path.is_symlink() or kind not in _PATHS:
        return False
    pattern = re.compile(_PATHS[kind])
    if not path.is_dir():
        return pattern.fullmatch(path.name) is not None
    files = 0
    for folder, folders, names in os.walk(path):
        place = Path(folder).relative_to(path.parent).as_posix()
        if any((Path(folder) / name).is_symlink() for name in (*folders, *names)):
            return False
        if not all(pattern.fullmatch(f"{place}/{name}") for name in names):
            return False
        files += len(names)
    return files > 0
