"""Reading machine code, as the parent sees it: architectures shared out over a few workers.

A worker that dies names its culprit; the ways after it go to another.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Any

from kernellab.base.errors import UserError, nearest
from kernellab.declaration.kinds import match_names
from kernellab.machine import tools
from kernellab.record.journal import Journal
from kernellab.record.settings import Settings
from kernellab.running.parent.worker_slot import Event, Lost, Post

_SLOW = ("compile",)  # kinds that take as long as all others together: whoever names them gets them


class Inspection:
    """What the ways of one op compile to. `say` is told what goes on."""

    def __init__(self, settings: Settings, journal: Journal, say: Callable[[str], None]) -> None:
        self.settings, self.journal, self.say = settings, journal, say
        self._lock = threading.Lock()
        self._posts: list[Post] = []
        self._said: set[str] = set()  # a launch in a loop is told once

    def run(self) -> None:
        archs = self.settings.archs or [""]
        # Starting a worker takes longer than most kernels take to compile: few workers, each with its share.
        # A process that has seen a GPU cannot be forked, so that there each architecture has a worker.
        workers = len(archs) if tools.has_gpu() else min(len(archs), os.cpu_count() or 1)
        shares = [list(enumerate(archs))[first::workers] for first in range(workers)]
        try:
            with ThreadPoolExecutor(max_workers=workers) as pool:
                futures = [pool.submit(self._share, dict(share)) for share in shares]
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

    def _share(self, archs: dict[int, str]) -> None:
        """Some of the architectures, by their numbers, in one worker after the other until all is read."""
        told = ", ".join(archs.values()) or "the GPU here, or sm_90"
        log = self.journal.folder / "artifacts" / f"worker-{min(archs)}.log"
        post = Post(self.settings.targets[0], "native", self.settings, log)
        with self._lock:
            self._posts.append(post)
            self.say(f"loading {self.settings.targets[0]} for {told}")
        post.ready()
        op = self._op(post)
        everyone = self._ways(op)
        if 0 in archs:
            self._left_out(op, _Share(self, archs, everyone, 0))
        todo = {number: list(everyone) for number in archs}
        while todo:
            share = _Share(self, archs, everyone, next(iter(todo)))
            lost = post.work(
                "inspect",
                share.observe,
                op=op["name"],
                request=self.settings.request,
                work=[{"arch": archs[n], "impls": names, "cpu": n == 0} for n, names in todo.items()],
                passes=self.settings.passes,
                gpu=self.settings.gpu,
                folder=str(self.journal.folder.resolve()),
                apart=len(todo) > 1,
                accounts="explain" in self.settings.stages,
            )
            if lost is None:
                return
            left = self._blamed(lost, op, todo[share.number], share)
            todo = {n: names for n, names in todo.items() if n > share.number}
            if left:
                todo = {share.number: left, **todo}

    def _op(self, post: Post) -> Event:
        if len(post.ops) > 1:
            names = [op["name"] for op in post.ops]
            raise UserError(f"{self.settings.targets[0]} declares {', '.join(names)}: name one, FILE:{names[0]}")
        return post.ops[0]

    def _ways(self, op: Event) -> list[str]:
        for asked in self.settings.impls:
            if not match_names(asked, op["known_impls"]):
                raise UserError(f"no implementation {asked!r} of {op['name']}: {nearest(asked, op['known_impls'])}")
        named = bool(self.settings.impls)
        return [impl["name"] for impl in op["impls"] if named or impl["kind"] not in _SLOW]

    def _left_out(self, op: Event, share: _Share) -> None:
        """Nobody need wonder where a way has gone."""
        reason = "left out, as compiling takes long: --impl asks for it"
        for impl in op["impls"]:
            if impl["kind"] in _SLOW and not self.settings.impls:
                share.write(**self._nothing(op, impl["name"], share), status="skipped", reason=reason)

    def _nothing(self, op: Event, name: str, share: _Share) -> dict[str, Any]:
        kind = next(impl["kind"] for impl in op["impls"] if impl["name"] == name)
        what = {"op": op["name"], "impl": name, "kind": kind, "case": None, "arch": share.arch, "gpu": None}
        return {**what, "pass": ", ".join(self.settings.passes), "kernels": [], "seconds": None}

    def _blamed(self, lost: Lost, op: Event, names: list[str], share: _Share) -> list[str]:
        """The ways left after the one that took the worker down; none where nobody is to blame."""
        if lost.impl is None:
            raise UserError(f"reading {op['name']} for {share.arch or 'this GPU'} failed: {lost.reason}")
        share.write(**self._nothing(op, lost.impl, share), status=lost.status, reason=lost.reason)
        return names[names.index(lost.impl) + 1 :]


class _Share:
    """What one worker says, and which architecture it is at."""

    def __init__(self, whole: Inspection, archs: dict[int, str], names: list[str], number: int) -> None:
        self._whole, self._archs, self.number = whole, archs, number
        self._places = {name: place for place, name in enumerate(whole.settings.impls or names)}

    @property
    def arch(self) -> str:
        return self._archs[self.number]

    def observe(self, event: Event) -> None:
        fields = {k: v for k, v in event.items() if k != "event"}
        if event["event"] == "architecture":
            self.number = next(number for number, arch in self._archs.items() if arch == event["arch"])
        elif event["event"] == "launch":
            said = f"{event['arch']}: {event['said']}"
            with self._whole._lock:
                if said not in self._whole._said:
                    self._whole._said.add(said)
                    self._whole.say(said)
        elif event["event"] == "code":
            self.write(**fields)

    def write(self, **code: Any) -> None:
        """`order` is the place of a way and an architecture as asked for, however the workers come along."""
        place = self._places.get(code["impl"], len(self._places))  # a way that a pattern meant
        with self._whole._lock:
            self._whole.journal.write("code", order=[place, self.number], **code)
