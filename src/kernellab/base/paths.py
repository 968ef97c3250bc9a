"""The cache folder, file names, and files that are replaced as a whole.

The cache holds only what kernellab can rebuild: compiled kernels, measured ceilings, locks.
"""

from __future__ import annotations

import os
from pathlib import Path

from kernellab.base.errors import UserError

REPORT_SWITCH = "KERNELLAB_REPORT"  # an environment variable: with 0, runs write no report.html


def cache_path(*parts: str) -> Path:
    """A path under the user's cache, which may not exist; `KERNELLAB_CACHE` names another root."""
    root = os.environ.get("KERNELLAB_CACHE")
    if root is None:
        root = str(Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kernellab")
    return Path(root).joinpath(*parts)


def cache_dir(*parts: str) -> Path:
    """A folder under the user's cache, created if absent."""
    folder = cache_path(*parts)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(
            f"cannot write to the cache folder {folder}: {error.strerror}. Set KERNELLAB_CACHE to another folder"
        ) from None
    return folder


def file_name(text: str) -> str:
    """A file name made of a text: everything but letters and digits becomes `-`."""
    return "".join(c if c.isalnum() else "-" for c in text)


def replace_file(path: Path, content: bytes) -> None:
    """Write a file atomically: a reader sees the old content or the new, never a part. A link is replaced."""
    # Neither a link of this name nor one of the scratch file's is followed: the folder may be a stranger's.
    scratch = path.with_name(f".{path.name[:40]}.{os.urandom(8).hex()}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(scratch, flags, 0o666)
    try:
        with os.fdopen(descriptor, "wb") as f:
            f.write(content)
            f.flush()
            os.fsync(f.fileno())
        scratch.replace(path)
    finally:
        scratch.unlink(missing_ok=True)
