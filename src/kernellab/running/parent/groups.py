"""Groups worked on: every way checked, the right ones timed, then profiled; whoever kills a worker is left out."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from kernellab.record.journal import SERIES, Journal
from kernellab.record.settings import Settings
from kernellab.running.parent.progress import Progress
from kernellab.running.parent.remaining_work import Group, Known
from kernellab.running.parent.worker_pool import Posts
from kernellab.running.parent.worker_slot import Event, Lost, Post

_QUICK_ELEMENTS = 1 << 18  # of an input, in a quick check
_CHECKING = ("check", "gradients")  # phases of a way in which nothing is timed
_KEPT = {
    *("check", "cost", "round", "timed", "discard", "fault", "guard", "begin", "end"),
    *("kernels", "inside", "traffic", "built", "memory", "spent"),
}


class Groups:
    """The groups of a run on one device."""

    def __init__(
        self, groups: list[Group], settings: Settings, journal: Journal, posts: Posts, progress: Progress, device: str
    ) -> None:
        self.groups, self.settings, self.journal = groups, settings, journal
        self.posts, self.progress, self.device = posts, progress, device
        self.known = Known(settings, journal, device)
        self._times = "time" in settings.stages
        self._culprits: dict[tuple[str, str], set[str]] = {}  # ways that killed workers, per op and case
        self._series: dict[str, Any] = {}  # what is being timed now

    def run(self) -> None:
        """Check and time what the journal does not have yet."""
        self.progress.planned([self._steps(group) for group in self.groups])
        for group in self.groups:
            if not self.known.finished(group):
                self._skip_impossible(group)
                self._native(group)
                self._interpreted(group)
            self.journal.save()
            self.progress.finished_group()

    def killers(self, op: str) -> set[str]:
        """Ways of an op that have killed a worker, at whatever case."""
        return {name for (of, _), names in self._culprits.items() if of == op for name in names}

    def _steps(self, group: Group) -> int:
        """Checks and timings there are to do, for the time left."""
        native, interpreted = (len(group.names(interpreted=i)) for i in (False, True))
        timings = len(self.known.series) if self._times else 0
        return native * (1 + timings) + interpreted

    def _skip_impossible(self, group: Group) -> None:
        """A way this device cannot run is skipped here; one that can be interpreted still gets its check."""
        for impl in group.impls:
            if impl["obstacle"] and not impl["interpreted"] and self.known.check(group, impl["name"]) is None:
                skipped = {"status": "skipped", "reason": impl["obstacle"]}
                self._write(group, {"event": "check", "impl": impl["name"], "check": skipped})

    def _native(self, group: Group) -> None:
        names = group.names(interpreted=False)
        if names:
            if any(t["status"] == "partial" for n in names for t in self.known.result(group, n)["times"]):
                self._write(group, {"event": "discard"})  # half a series, from a run that was interrupted
            self._work(group, group.post, names, timed=self._times)

    def _interpreted(self, group: Group) -> None:
        names = group.names(interpreted=True)
        if names:
            self._work(group, self.posts.beside(group.post, "interpreter"), names, timed=False)

    def _work(self, group: Group, post: Post, names: list[str], *, timed: bool) -> None:
        """Repeat until every way is checked and the right ones are timed, losing only those that kill workers."""
        self._series = {}
        known = self.known
        while unfinished := known.unfinished(group, names):
            culprits = len(self._culprits_of(group))
            lost = post.work(
                "group",
                lambda event: self._observe(group, event),
                op=group.op,
                case=group.case,
                check={of: [n for n in names if known.unchecked(group, n, of)] for of in known.checks},
                right={of: [n for n in names if known.right(group, n, of)] for of in known.checks},
                time=self._to_time(group, names) if timed else [],
                distrusted=sorted(self._culprits_of(group)),
                seed=self.settings.seed,
                interpreted=post.kind == "interpreter",
                most=_QUICK_ELEMENTS if self.settings.quick_check else None,
            )
            if lost is not None and lost.impl is not None:
                self._blame(group, lost)
            left = known.unfinished(group, names)
            if len(left) == len(unfinished) and len(self._culprits_of(group)) == culprits:
                self._give_up(group, left, lost)

    def _to_time(self, group: Group, names: list[str]) -> list[dict[str, Any]]:
        """What is left to time; the worker leaves out whoever it finds wrong."""
        todo = []
        for series in self.known.series:
            impls = [n for n in names if self.known.may_time(group, n, series)]
            timing = self.settings.timing(self.device, dict(series), max(1, len(self.groups)))
            todo.append({"series": series, "impls": impls, "timing": timing})
        return [one for one in todo if one["impls"]]

    def _observe(self, group: Group, event: Event) -> None:
        kind = event["event"]
        if kind == "waiting":
            self.progress.say(event["reason"])
        if kind == "series":
            self._series = {k: event[k] for k in SERIES}
        if kind == "culprit":
            self._blame(group, Lost(event["impl"], "check", "crashed", event["reason"]))
        if kind == "begin" and event["impl"] is not None:
            self.progress.doing(group.op, group.case, event["impl"], event["phase"])
        # A sample's begin and end are not worth a line each: the rounds say as much. The oracle's are nobody's.
        unkept = kind in ("begin", "end") and (event["phase"] == "time" or event["impl"] is None)
        if kind in _KEPT and not unkept:
            self._write(group, event)

    def _write(self, group: Group, event: Event) -> None:
        fields = {k: v for k, v in event.items() if k != "event"}
        self.journal.write(event["event"], op=group.op, case=group.case, **fields)

    # Whose fault ---------------------------------------------------------------------------------------

    def _culprits_of(self, group: Group) -> set[str]:
        return self._culprits.setdefault((group.op, json.dumps(group.case)), set())

    def _blame(self, group: Group, lost: Lost) -> None:
        assert lost.impl is not None
        self._culprits_of(group).add(lost.impl)
        if lost.impl in {i["name"] for i in group.impls}:  # the yardstick may be a way nobody asked for
            fault = {"impl": lost.impl, "phase": lost.phase, "status": lost.status, "reason": lost.reason}
            fault |= self._series if lost.phase not in _CHECKING else {}
            self._write(group, {"event": "fault", **fault})
        if lost.phase not in _CHECKING:
            self._write(group, {"event": "discard"})

    def _give_up(self, group: Group, names: list[str], lost: Lost | None) -> None:
        """A worker got nowhere, and no implementation was running: do not try for ever."""
        what = lost.reason if lost else "it did nothing"
        reason = f"the worker was lost outside every implementation: {what}"
        status = "error"
        if lost is not None and lost.phase == "oracle":
            status, reason = "unknown", f"cannot check: the reference: {what}"
        if lost is not None and lost.phase == "cost":
            reason = f"the op's cost= failed: {what}"
        for name in names:
            phase = "time" if self.known.right(group, name) else "check"
            fault = {"impl": name, "phase": phase, "status": status, "reason": reason}
            self._write(group, {"event": "fault", **fault, **(self._series if phase == "time" else {})})

    # Profiling -----------------------------------------------------------------------------------------

    def profile(self) -> None:
        """Which kernels each right way launches and what else it does; in workers of their own, after all timing."""
        series = self.known.profiler_series
        for group in self.groups:
            names = self._to_profile(group, series)
            given_up: set[str] = set()
            while names:
                lost = self._profiler_for(group).work(
                    "profile",
                    lambda event, group=group: self._observe(group, event),  # type: ignore[misc]
                    op=group.op,
                    case=group.case,
                    impls=[n for n in names if not self.known.looked_into(group, n)],
                    series=[{"series": one, "impls": self._untimed(group, names, one)} for one in series],
                    seed=self.settings.seed,
                    rounds=self.settings.rounds,
                )
                if lost is None or lost.impl is None:
                    break
                how = {"name": "profile", "detail": f"could not be profiled: {lost.status}: {lost.reason}"}
                self._write(group, {"event": "guard", "impl": lost.impl, "guard": how})
                given_up.add(lost.impl)
                names = [n for n in self._to_profile(group, series) if n not in given_up]
            self.journal.save()

    def _to_profile(self, group: Group, series: list[dict[str, str]]) -> list[str]:
        """Right ways that did nothing bad while timed, and of which something is still to be learned."""
        natives = group.names(interpreted=False)
        names = [n for n in natives if self.known.right(group, n) and not self.known.faulted(group, n)]
        unknown = {n for one in series for n in self._untimed(group, names, one)}
        return [n for n in names if n in unknown or not self.known.looked_into(group, n)]

    def _untimed(self, group: Group, names: list[str], series: Mapping[str, str]) -> list[str]:
        right = [n for n in names if self.known.right(group, n, series["pass"])]
        return [n for n in right if not self.known.timed(group, n, series)]

    def _profiler_for(self, group: Group) -> Post:
        """A worker that times nothing afterwards; on a GPU one that has not timed before either."""
        return self.posts.beside(group.post, "profiler") if self.device.startswith("cuda") else group.post
