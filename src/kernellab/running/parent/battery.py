"""The battery as the parent sees it: every way of an op tried to the end, or until it kills a worker."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from kernellab.base.paths import file_name
from kernellab.record.journal import Journal
from kernellab.record.settings import Settings
from kernellab.running.parent.failed_trials import FAILED, Failures
from kernellab.running.parent.worker_slot import Event, Lost, Post

_FATAL = ("crashed", "timeout", "oom")
_PATIENCE = 3  # workers a reference may take down: one large trial may be too much for it, each costs a new worker


class Trials:
    """One op's ways in one kind of worker; `failures` remembers from run to run."""

    def __init__(self, op: str, post: Post, settings: Settings, journal: Journal, failures: Failures) -> None:
        self.op, self.post, self.settings, self.journal, self.failures = op, post, settings, journal, failures
        self._trying: Event | None = None
        self._asked: Event | None = None  # the op's where=, about a case
        self._blamed: set[str] = set()  # the yardstick, when it took a worker down
        self._unanswered = 0  # workers the reference took down

    def run(self, names: Sequence[str], heard: Callable[[Event], None]) -> None:
        """`heard` is told what goes on."""
        device, dtypes = str(self.journal.record["machine"]["device"]).split(":")[0], self.settings.request["dtypes"]
        stored = {n: self.failures.fitting(n, device=device, dtypes=dtypes) for n in names}
        try:
            self._battery(names, stored, heard)
        finally:
            for name in names:
                self.failures.learn(name, self._of(name))

    def _battery(
        self, names: Sequence[str], stored: dict[str, list[dict[str, Any]]], heard: Callable[[Event], None]
    ) -> None:
        while left := [n for n in names if not self._stopped(n)]:
            before = {n: self._done(n, -len(stored[n])) for n in left}
            lost = self._work("battery", names, heard, done=before, stored=stored, quick=self.settings.request["quick"])
            if lost is not None:
                self._lost(lost, left)
            whole = lost is None and not any(self._stopped(n) for n in left)
            if (
                whole
                or (lost is not None and lost.phase == "where")
                or self._unanswered == _PATIENCE
                or not any(self._done(n, -len(stored[n])) > before[n] for n in left)
            ):
                return

    def search(self, name: str, seconds: float, heard: Callable[[Event], None]) -> None:
        """Trials drawn for a way that has failed none so far."""
        began, self._trying = time.monotonic(), None
        first = self._done(name)
        lost = self._work("search", [name], heard, impl=name, number=first, seconds=seconds)
        if lost is not None:
            self._lost(lost, [name])
        if not self.searched(name):  # its worker was lost
            drawn = self._trying["number"] + 1 - first if self._trying is not None else 0
            self._search({"impl": name, "drawn": drawn, "outside": 0, "seconds": round(time.monotonic() - began, 2)})
        self.failures.learn(name, self._of(name))

    def _search(self, event: Event) -> None:
        """The script goes into a file; the record keeps the lines that are about the trial."""
        fields: dict[str, Any] = {k: v for k, v in event.items() if k not in ("event", "whole")}
        if "whole" in event:
            file = self.journal.folder / "artifacts" / f"reproduce-{file_name(self.op)}-{file_name(event['impl'])}.py"
            file.write_text(event["whole"])
            fields["file"] = f"artifacts/{file.name}"
        self.journal.write("search", op=self.op, **fields)

    def _work(self, do: str, names: Sequence[str], heard: Callable[[Event], None], **fields: Any) -> Lost | None:
        return self.post.work(
            do,
            lambda event: self._observe(event, heard),
            op=self.op,
            dtypes=self.settings.request["dtypes"],
            distrusted=sorted(self._blamed | {n for n in names if self._stopped(n)}),
            seed=self.settings.seed,
            interpreted=self.post.kind == "interpreter",
            **fields,
        )

    def _observe(self, event: Event, heard: Callable[[Event], None]) -> None:
        if event["event"] == "begin" and event["phase"] in ("try", "search"):
            self._trying = event
        elif event["event"] == "begin" and event["phase"] == "where":
            self._asked = event
        elif event["event"] == "trial":
            self._write(event)
        elif event["event"] == "search":
            self._search(event)
        elif event["event"] == "culprit":
            self._blamed.add(event["impl"])
        heard(event)

    def _lost(self, lost: Lost, names: list[str]) -> None:
        if lost.phase == "where" and self._asked is not None:
            for name in names:
                told = {"impl": name, "number": self._done(name), "trial": self._asked["trial"]}
                reason = f"the op's where= at {self._asked['trial']['label']}: {lost.reason}"
                self._write({**told, "status": "unknown", "reason": reason})
            return
        if self._trying is None:
            return
        told = {k: self._trying[k] for k in ("impl", "number", "trial")}
        if lost.impl is not None:
            self._write({**told, "status": lost.status, "reason": lost.reason})
            return
        reason = lost.reason
        if lost.phase == "oracle":
            self._unanswered += 1
            reason = f"cannot check: the reference: {lost.reason}"
            if self._unanswered == _PATIENCE:
                reason += f"; for the {_PATIENCE}rd time, so the rest of the battery is not tried"
        for name in names:
            if self._done(name, told["number"]) <= told["number"]:
                self._write({**told, "impl": name, "status": "unknown", "reason": reason})

    def _write(self, event: Event) -> None:
        fields: dict[str, Any] = {k: v for k, v in event.items() if k != "event"}
        fields.setdefault("interpreter", self.post.kind == "interpreter")
        self.journal.write("trial", op=self.op, **fields)

    def _of(self, name: str) -> list[dict[str, Any]]:
        return [t for t in self.journal.record["trials"] if t["op"] == self.op and t["impl"] == name]

    def _done(self, name: str, first: int = 0) -> int:
        return max((t["number"] + 1 for t in self._of(name)), default=first)

    def _stopped(self, name: str) -> bool:
        """A way that takes its process down is not tried further: each time costs a new one."""
        return any(t["status"] in _FATAL for t in self._of(name))

    def has_failed(self, name: str) -> bool:
        return any(t["status"] in (*FAILED, *_FATAL) for t in self._of(name))

    def searched(self, name: str) -> bool:
        return any(s["op"] == self.op and s["impl"] == name for s in self.journal.record["searches"])
