"""The battery as the parent sees it: every way of an op tried to the end, or until it kills a worker."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from kernellab.running.post import Event, Lost, Post
from kernellab.running.record import Journal
from kernellab.running.settings import Settings

_FATAL = ("crashed", "timeout", "oom")


class Trials:
    """One op's ways in one kind of worker."""

    def __init__(self, op: str, post: Post, settings: Settings, journal: Journal) -> None:
        self.op, self.post, self.settings, self.journal = op, post, settings, journal
        self._trying: Event | None = None
        self._blamed: set[str] = set()  # the yardstick, when it took a worker down

    def run(self, names: Sequence[str], heard: Callable[[Event], None]) -> None:
        """`heard` is told what goes on."""
        while left := [n for n in names if not self._stopped(n)]:
            before = {n: self._done(n) for n in left}
            lost = self.post.work(
                "battery",
                lambda event: self._observe(event, heard),
                op=self.op,
                done=before,
                dtypes=self.settings.request["dtypes"],
                quick=self.settings.request["quick"],
                distrusted=sorted(self._blamed | {n for n in names if self._stopped(n)}),
                seed=self.settings.seed,
                interpreted=self.post.kind == "interpreter",
            )
            if lost is not None:
                self._lost(lost, left)
            whole = lost is None and not any(self._stopped(n) for n in left)
            if whole or not any(self._done(n) > before[n] for n in left):
                return

    def _observe(self, event: Event, heard: Callable[[Event], None]) -> None:
        if event["event"] == "begin" and event["phase"] == "try":
            self._trying = event
        elif event["event"] == "trial":
            self._write(event)
        elif event["event"] == "culprit":
            self._blamed.add(event["impl"])
        heard(event)

    def _lost(self, lost: Lost, names: list[str]) -> None:
        if self._trying is None:
            return
        told = {k: self._trying[k] for k in ("impl", "number", "trial")}
        if lost.impl is not None:
            self._write({**told, "status": lost.status, "reason": lost.reason})
            return
        reason = f"cannot check: the reference: {lost.reason}" if lost.phase == "oracle" else lost.reason
        for name in names:
            if self._done(name) <= told["number"]:
                self._write({**told, "impl": name, "status": "unknown", "reason": reason})

    def _write(self, event: Event) -> None:
        fields: dict[str, Any] = {k: v for k, v in event.items() if k != "event"}
        fields.setdefault("interpreter", self.post.kind == "interpreter")
        self.journal.write("trial", op=self.op, **fields)

    def _of(self, name: str) -> list[dict[str, Any]]:
        return [t for t in self.journal.record["trials"] if t["op"] == self.op and t["impl"] == name]

    def _done(self, name: str) -> int:
        return max((t["number"] + 1 for t in self._of(name)), default=0)

    def _stopped(self, name: str) -> bool:
        """A way that takes its process down is not tried further: each time costs a new one."""
        return any(t["status"] in _FATAL for t in self._of(name))
