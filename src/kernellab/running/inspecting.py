"""Reading machine code, as the parent sees it: one worker per architecture, several at a time.

A worker that dies names its culprit; the ways after it go to another.
"""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Any

from kernellab.declare import matching
from kernellab.errors import UserError, nearest
from kernellab.running.post import Event, Lost, Post
from kernellab.running.record import Journal
from kernellab.running.settings import Settings

Places = dict[str, list[int]]  # of ways in what is shown, however the workers come along: by way, then by architecture

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
                futures = [pool.submit(self._architecture, number, arch) for number, arch in enumerate(archs)]
                try:
                    for done in as_completed(futures):
                        done.result()
                except BaseException:  # the first failure, or the user's interrupt: nobody works on
                    pool.shutdown(wait=False, cancel_futures=True)
                    self.close()
                    raise
            self.journal.write("complete")
        finally:
            self.close()

    def close(self) -> None:
        for post in self._posts:
            post.close()

    def _architecture(self, number: int, arch: str) -> None:
        log = self.journal.folder / "artifacts" / f"worker-{arch or 'here'}.log"
        post = Post(self.settings.targets[0], "native", self.settings, log)
        with self._lock:
            self._posts.append(post)
            self.say(f"loading {self.settings.targets[0]} for {arch or 'the GPU here, or sm_90'}")
        post.ready()
        op = self._op(post)
        names = self._ways(op)
        places = {name: [place, number] for place, name in enumerate(self.settings.impls or names)}
        heard = functools.partial(self._observe, places)
        while names:
            lost = post.work(
                "inspect",
                heard,
                op=op["name"],
                request=self.settings.request,
                impls=names,
                arch=arch,
                passes=self.settings.passes,
                folder=str(self.journal.folder.resolve()),
                cpu=arch in ("", *self.settings.archs[:1]),  # once is enough
            )
            if lost is None:
                return
            names = self._blamed(lost, op, names, arch, places)

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

    def _observe(self, places: Places, event: Event) -> None:
        with self._lock:
            if event["event"] == "launch":
                self.say(f"{event['arch']}: {event['said']}")
            elif event["event"] == "code":
                self._write(places, **{k: v for k, v in event.items() if k != "event"})

    def _write(self, places: Places, **code: Any) -> None:
        last = [len(places), *next(iter(places.values()))[1:]]  # a way that a pattern meant
        self.journal.write("code", order=places.get(code["impl"], last), **code)

    def _blamed(self, lost: Lost, op: Event, names: list[str], arch: str, places: Places) -> list[str]:
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
            self._write(places, **what, **of, **fault)
        return names[names.index(lost.impl) + 1 :]
