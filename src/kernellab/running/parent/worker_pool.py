"""The posts of a run: a worker for each target and kind, opened when it is first needed, closed together."""

from __future__ import annotations

from pathlib import Path

from kernellab.record.settings import Settings
from kernellab.running.parent.worker_slot import Post


class Posts:
    def __init__(self, settings: Settings, logs: Path) -> None:
        self._settings, self._logs = settings, logs
        self._all: list[Post] = []

    def open(self, target: str | None, kind: str) -> Post:
        log = self._logs / f"worker-{len(self._all)}-{kind}.log"
        self._all.append(Post(target, kind, self._settings, log))
        return self._all[-1]

    def beside(self, post: Post, kind: str) -> Post:
        """Another kind of worker for the same target."""
        for known in self._all:
            if known.kind == kind and known.target == post.target:
                return known
        return self.open(post.target.text if post.target else None, kind)

    def close(self) -> None:
        for post in self._all:
            post.close()
