"""Reading machine code, as the parent sees it: one worker per architecture, several at a time.

A worker that dies names its culprit; the ways after it go to another.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from kernellab.declare import matching
from kernellab.errors import UserError, nearest
from kernellab.running.post import Event, Lost, Post
from kernellab.running.record import Journal
from kernellab.running.settings import Settings

_SLOW = ("compile",)  # kinds that take as long as all others together: whoever names them gets them


class Inspection:
    """What the ways of one op compile to. `say` is told what goes on."""

    def __init__(self, settings: Settings, journal: Journal, say: Callable[[str], None]) -> None:
        self.settings, self.journal, self.say = settings, journal, say
        self._lock = threading.Lock()
        self._posts: list[Post] = []

    def run(self) -> None:
        archs = self.settings.archs or [""]
        try:
            with ThreadPoolExecutor(max_workers=min(len(archs), os.cpu_count() or 1)) as pool:
                # The first failure is the one worth telling; the other workers come to their end by themselves.
                for done in [pool.submit(self._architecture, arch) for arch in archs]:
                    done.result()
            self.journal.record["code"].sort(key=self._order)
            self.journal.write("complete")
        finally:
            self.close()

    def close(self) -> None:
        for post in self._posts:
            post.close()

    def _architecture(self, arch: str) -> None:
        log = self.journal.folder / "artifacts" / f"worker-{arch or 'here'}.log"
        post = Post(self.settings.targets[0], "native", self.settings, log)
        with self._lock:
            self._posts.append(post)
            self.say(f"loading {self.settings.targets[0]} for {arch or 'the GPU here, or sm_90'}")
        post.ready()
        op = self._op(post)
        names = self._ways(op)
        while names:
            lost = post.work(
                "inspect",
                self._observe,
                op=op["name"],
                request=self.settings.request,
                impls=names,
                arch=arch,
                passes=self.settings.passes,
                folder=str(self.journal.folder.resolve()),
                cpu=arch in ("", *self.settings.archs[:1]),  # once is enough
                accounts="explain" in self.settings.stages,
            )
            if lost is None:
                return
            names = self._blamed(lost, op, names, arch)

    def _op(self, post: Post) -> Event:
        if len(post.ops) > 1:
            names = [op["name"] for op in post.ops]
            raise UserError(f"{self.settings.targets[0]} declares {', '.join(names)}: name one, FILE:{names[0]}")
        return post.ops[0]

    def _ways(self, op: Event) -> list[str]:
        for asked in self.settings.impls:
            if not matching(asked, op["known_impls"]):
                raise UserError(f"no implementation {asked!r} of {op['name']}: {nearest(asked, op['known_impls'])}")
        named = bool(self.settings.impls)
        return [impl["name"] for impl in op["impls"] if named or impl["kind"] not in _SLOW]

    def _observe(self, event: Event) -> None:
        with self._lock:
            if event["event"] == "launch":
                self.say(f"{event['arch']}: {event['said']}")
            elif event["event"] == "code":
                self.journal.write("code", **{k: v for k, v in event.items() if k != "event"})

    def _blamed(self, lost: Lost, op: Event, names: list[str], arch: str) -> list[str]:
        """The ways left after the one that took the worker down; none where nobody is to blame."""
        if lost.impl is None:
            raise UserError(f"reading {op['name']} for {arch} failed: {lost.reason}")
        fault: dict[str, Any] = {
            "status": lost.status,
            "reason": lost.reason,
            "kernels": [],
            "seconds": None,
            "gpu": None,
        }
        kind = next(impl["kind"] for impl in op["impls"] if impl["name"] == lost.impl)
        with self._lock:
            of = {"pass": ", ".join(self.settings.passes)}
            what = {"op": op["name"], "impl": lost.impl, "kind": kind, "case": None, "arch": arch}
            self.journal.write("code", **what, **of, **fault)
        return names[names.index(lost.impl) + 1 :]

    def _order(self, entry: dict[str, Any]) -> tuple[int, int]:
        """Ways as they were asked for, architectures as they were asked for, however the workers came along."""
        archs, impls = self.settings.archs, self.settings.impls
        arch = archs.index(entry["arch"]) if entry["arch"] in archs else 0
        return impls.index(entry["impl"]) if entry["impl"] in impls else 0, arch
