"""Where kernellab keeps what it may rebuild: compiled kernels, measured ceilings, locks."""

from __future__ import annotations

import os
from pathlib import Path

from kernellab.base.errors import UserError


def cache_dir(*parts: str) -> Path:
    """A folder under the user's cache (`KERNELLAB_CACHE` moves it), made if absent."""
    root = os.environ.get("KERNELLAB_CACHE")
    if root is None:
        root = str(Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kernellab")
    folder = Path(root).joinpath(*parts)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"cannot keep anything in {folder}: {error.strerror}. KERNELLAB_CACHE names another") from None
    return folder


def file_name(text: str) -> str:
    """Any text as the name of a file."""
    return "".join(c if c.isalnum() else "-" for c in text)


def replace_file(path: Path, content: bytes) -> None:
    """Write a file so that a reader sees the old or the new one, never half of it."""
    scratch = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with scratch.open("wb") as f:
            f.write(content)
            f.flush()
            os.fsync(f.fileno())
        scratch.replace(path)
    finally:
        scratch.unlink(missing_ok=True)
