"""The run: load every target, plan its groups, have them worked on, keep what is observed.

The parent process lives here. It imports neither torch nor op files.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from kernellab.declare import matching
from kernellab.errors import UserError, nearest
from kernellab.machine import tools
from kernellab.machine.environment import device_identity, machine_class, run_key
from kernellab.machine.paths import cache_dir, file_name, replace_file
from kernellab.running.failures import Failures
from kernellab.running.post import Event, Lost, Post
from kernellab.running.record import SERIES, Journal, result_of
from kernellab.running.sanitizer import Sanitizer, ways
from kernellab.running.settings import Settings, needed_checks
from kernellab.running.trials import Trials

_QUICK_ELEMENTS = 1 << 18  # of an input, in a quick check
_CHECKING = ("check", "gradients")  # phases of a way in which nothing is timed
_KEPT = {
    *("check", "cost", "round", "timed", "discard", "fault", "guard", "begin", "end"),
    *("kernels", "inside", "traffic", "built", "memory", "spent"),
}


class Progress(Protocol):
    """Hears what is going on; the terminal draws it."""

    def say(self, text: str) -> None: ...
    def planned(self, steps: Sequence[int]) -> None: ...
    def doing(self, op: str, case: Mapping[str, Any], impl: str, phase: str) -> None: ...
    def finished_group(self) -> None: ...
    def trying(self, op: str, impl: str, number: int, of: int) -> None: ...


@dataclass(frozen=True)
class Group:
    """Work on one op at one case."""

    post: Post
    op: str
    case: dict[str, Any]
    impls: list[dict[str, Any]]

    def names(self, *, interpreted: bool) -> list[str]:
        """The ways that run natively, or those that run in the interpreter."""
        return [i["name"] for i in self.impls if i["interpreted"] is interpreted and (interpreted or not i["obstacle"])]


class Runner:
    def __init__(self, settings: Settings, journal: Journal, progress: Progress) -> None:
        self.settings, self.journal, self.progress = settings, journal, progress
        self.environment: dict[str, Any] = journal.record["environment"]
        self._posts: list[Post] = []
        self._culprits: dict[tuple[str, str], set[str]] = {}  # ways that killed workers, per op and case
        self._planned = 0  # groups
        self._series: dict[str, Any] = {}  # what is being timed now
        self._artifacts = journal.folder / "artifacts"

    def run(self) -> None:
        """Do everything the settings ask for that the journal does not have yet."""
        try:
            posts = self._load()
            self._refuse_to_sanitize()
            self.settings.series(self.device)  # refuses timers there are not on this device
            groups = self._plan(posts)
            self._machine(groups)
            self.journal.save()
            self.progress.planned([self._steps(group) for group in groups])
            for group in groups:
                if not self._finished(group):
                    self._skip_impossible(group)
                    self._native(group)
                    self._interpreted(group)
                self.journal.save()
                self.progress.finished_group()
            self._battery(groups)
            self._sanitize(groups)
            self._profile(groups)
            self.journal.write("complete")
        finally:
            self.close()

    def close(self) -> None:
        for post in self._posts:
            post.close()

    # Planning ------------------------------------------------------------------------------------------

    def _post(self, target: str | None, kind: str) -> Post:
        log = self._artifacts / f"worker-{len(self._posts)}-{kind}.log"
        self._posts.append(Post(target, kind, self.settings, log))
        return self._posts[-1]

    def _load(self) -> list[Post]:
        posts = [self._post(target, "native") for target in dict.fromkeys(self.settings.targets)]
        for post in posts:
            assert post.target is not None
            self.progress.say(f"loading {post.target.text}")
            post.ready()
        return posts

    def _plan(self, posts: list[Post]) -> list[Group]:
        groups = []
        owners: dict[str, str] = {}
        for post, target in zip(posts, dict.fromkeys(self.settings.targets), strict=True):
            for op in post.ops:
                other = owners.setdefault(op["name"], target)
                if other != target:
                    raise UserError(f"two ops are named {op['name']}: in {other} and in {target}")
                self._void_if_changed(op)
                impls = self._without_compile(op["impls"]) if self._quick_check else op["impls"]
                groups += [Group(post, op["name"], case, impls) for case in op["cases"]]
        self._refuse_unknown_impls(posts)
        groups = self._own_cell(groups)
        sources = {op["name"]: op["source_hash"] for post in posts for op in post.ops}
        plan = [{"op": g.op, "case": g.case, "impls": {i["name"]: i["kind"] for i in g.impls}} for g in groups]
        self.journal.write("plan", groups=plan, sources=sources)
        self._planned = len(groups)
        return groups

    @property
    def _quick_check(self) -> bool:
        """Checking alone, and quickly: on smaller cases, without what takes long."""
        return bool(self.settings.request.get("quick")) and "battery" in self.settings.stages

    def _without_compile(self, impls: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Compiling takes as long as everything else together; whoever names the way gets it."""
        reason = "left out by --quick, as compiling takes long: --impl compile asks for it"
        return [i if i["kind"] != "compile" or self.settings.impls else {**i, "obstacle": reason} for i in impls]

    def _own_cell(self, groups: list[Group]) -> list[Group]:
        """Neighbouring groups go to different cells, so that small and large cases are shared out evenly."""
        if self.settings.cells is None:
            return groups
        number, of = self.settings.cells
        if groups and number > len(groups):
            raise UserError(f"--cells {number}/{of} is empty: there are {len(groups)} cases to share")
        return groups[number - 1 :: of]

    def _steps(self, group: Group) -> int:
        """Checks and timings there are to do, for the time left."""
        native, interpreted = (len(group.names(interpreted=i)) for i in (False, True))
        timings = len(self._native_series()) if "time" in self.settings.stages else 0
        return native * (1 + timings) + interpreted

    def _refuse_unknown_impls(self, posts: list[Post]) -> None:
        known = {name for post in posts for op in post.ops for name in op["known_impls"]}
        for name in self.settings.impls:
            if not matching(name, known):
                raise UserError(f"no implementation {name!r}: {nearest(name, known)}")

    def _void_if_changed(self, op: Event) -> None:
        before = self.journal.record["sources"].get(op["name"])
        if before is not None and before != op["source_hash"]:
            self.progress.say(f"{op['name']} changed since the run began: it is done again")
            self.journal.write("void", op=op["name"])

    def _machine(self, groups: list[Group]) -> None:
        uuid = self._posts[0].device["uuid"]
        identity, kind = device_identity(self.environment, uuid), machine_class(self.environment, uuid)
        key = run_key(self.environment, identity)
        before = self.journal.record["machine"].get("key")
        if before is not None and before != key:
            raise UserError(
                f"{self.journal.folder} was begun with other versions or on another device: start a new run"
            )
        wanted = "time" in self.settings.stages and not self.settings.only_times and groups
        ceilings = self._ceilings(identity) if wanted else None
        facts = {k: self._posts[0].device[k] for k in ("device", "torch", "cuda", "peaks", "gpu")}
        named = {"name": identity, "class": kind, "key": key}
        self.journal.write("machine", machine={**facts, **named, "ceilings": ceilings})

    @property
    def device(self) -> str:
        return str(self._posts[0].device["device"])

    def _ceilings(self, identity: str) -> dict[str, Any] | None:
        """Measured once per machine and kept; `--refresh-ceilings` measures again."""
        file = cache_dir("ceilings") / f"{file_name(identity)}.json"
        if file.exists() and not self.settings.refresh_ceilings:
            try:
                known: dict[str, Any] = json.loads(file.read_text())
                return known
            except ValueError:
                pass
        self.progress.say("measuring this machine's copy bandwidth and matmul rate (once)")
        found: list[Event] = []
        # In a worker of its own: an op file may have changed the precision or the threads of the others.
        post = self._post(None, "native")
        lost = post.work("ceilings", lambda e: found.append(e) if e["event"] == "ceilings" else None)
        post.close()
        if lost is not None or not found:
            self.progress.say("the machine's ceilings could not be measured")
            return None
        ceilings = {k: v for k, v in found[0].items() if k != "event"}
        if ceilings["doubts"]:
            self.progress.say(f"measured again next time: {'; '.join(ceilings['doubts'])}")
        else:
            replace_file(file, json.dumps(ceilings, indent=1).encode())
        return ceilings

    # Working -------------------------------------------------------------------------------------------

    def _skip_impossible(self, group: Group) -> None:
        """A way this device cannot run is skipped here; one that can be interpreted still gets its check."""
        for impl in group.impls:
            if impl["obstacle"] and not impl["interpreted"] and self._check_of(group, impl["name"]) is None:
                skipped = {"status": "skipped", "reason": impl["obstacle"]}
                self._write(group, {"event": "check", "impl": impl["name"], "check": skipped})

    def _native(self, group: Group) -> None:
        names = group.names(interpreted=False)
        if names:
            if any(t["status"] == "partial" for n in names for t in self._result(group, n)["times"]):
                self._write(group, {"event": "discard"})  # half a series, from a run that was interrupted
            self._work(group, group.post, names, timed="time" in self.settings.stages)

    def _interpreted(self, group: Group) -> None:
        names = group.names(interpreted=True)
        if names:
            self._work(group, self._interpreter_for(group.post), names, timed=False)

    def _interpreter_for(self, native: Post) -> Post:
        for post in self._posts:
            if post.kind == "interpreter" and post.target == native.target:
                return post
        return self._post(native.target.text if native.target else None, "interpreter")

    def _work(self, group: Group, post: Post, names: list[str], *, timed: bool) -> None:
        """Repeat until every way is checked and the right ones are timed, losing only those that kill workers."""
        self._series = {}
        while unfinished := self._unfinished(group, names):
            known = len(self._culprits_of(group))
            lost = post.work(
                "group",
                lambda event: self._observe(group, event),
                op=group.op,
                case=group.case,
                check={of: [n for n in names if self._unchecked(group, n, of)] for of in self._checks()},
                right={of: [n for n in names if self._right(group, n, of)] for of in self._checks()},
                time=self._to_time(group, names) if timed else [],
                distrusted=sorted(self._culprits_of(group)),
                seed=self.settings.seed,
                interpreted=post.kind == "interpreter",
                most=_QUICK_ELEMENTS if self._quick_check else None,
            )
            if lost is not None and lost.impl is not None:
                self._blame(group, lost)
            fewer = len(self._unfinished(group, names)) < len(unfinished)
            if not fewer and len(self._culprits_of(group)) == known:
                self._give_up(group, self._unfinished(group, names), lost)

    def _checks(self) -> list[str]:
        return self.settings.checked_passes() if "time" in self.settings.stages else ["forward"]

    def _to_time(self, group: Group, names: list[str]) -> list[dict[str, Any]]:
        """What is left to time; the worker leaves out whoever it finds wrong."""
        todo = []
        for series in self._native_series():
            impls = [n for n in names if self._may_time(group, n, series)]
            todo.append({"series": series, "impls": impls, "timing": self._timing(series)})
        return [one for one in todo if one["impls"]]

    def _timing(self, series: Mapping[str, str]) -> dict[str, Any]:
        return self.settings.timing(self.device, dict(series), max(1, self._planned))

    def _native_series(self) -> list[dict[str, str]]:
        """Series that are timed where the ways run; kernel times need a profiler, and so a worker of its own."""
        return [one for one in self.settings.series(self.device) if one["timer"] != "kernel"]

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

    def _blame(self, group: Group, lost: Lost) -> None:
        assert lost.impl is not None
        self._culprits_of(group).add(lost.impl)
        if lost.impl in {i["name"] for i in group.impls}:  # the yardstick may be a way nobody asked for
            fault = {"impl": lost.impl, "phase": lost.phase, "status": lost.status, "reason": lost.reason}
            fault |= self._series if lost.phase not in _CHECKING else {}
            self._write(group, {"event": "fault", **fault})
        if lost.phase not in _CHECKING:
            self._write(group, {"event": "discard"})

    def _culprits_of(self, group: Group) -> set[str]:
        return self._culprits.setdefault((group.op, json.dumps(group.case)), set())

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
            phase = "time" if self._right(group, name) else "check"
            fault = {"impl": name, "phase": phase, "status": status, "reason": reason}
            self._write(group, {"event": "fault", **fault, **(self._series if phase == "time" else {})})

    def _battery(self, groups: list[Group]) -> None:
        """Each op's ways tried with all that its declaration gives rise to; not those that have killed a worker."""
        if "battery" not in self.settings.stages:
            return
        done = []
        for group in {group.op: group for group in groups}.values():
            killed = {name for (op, _), names in self._culprits.items() if op == group.op for name in names}
            file = next(op["file"] for op in group.post.ops if op["name"] == group.op)
            for interpreted in (False, True):
                names = [n for n in group.names(interpreted=interpreted) if n not in killed]
                if names:
                    post = self._interpreter_for(group.post) if interpreted else group.post
                    where = " in Triton's interpreter" if interpreted else ""
                    self.progress.say(f"the battery of {group.op}{where}")
                    trials = Trials(group.op, post, self.settings, self.journal, Failures(group.op, file))
                    trials.run(names, self._trying(group.op))
                    done.append((trials, names))
            self.journal.save()
        self._search(done)

    def _search(self, done: list[tuple[Trials, list[str]]]) -> None:
        """Trials beyond the battery for the ways that passed it; the manual way, being the definition, cannot fail."""
        if not self.settings.budget_s:
            return
        todo = [(trials, n) for trials, names in done for n in names if n != "manual" and not trials.has_failed(n)]
        for trials, name in todo:
            if not trials.searched(name):
                self.progress.say(f"searching: {trials.op} {name}")
                trials.search(name, self.settings.budget_s / len(todo), self._trying(trials.op))
                self.journal.save()

    def _trying(self, op: str) -> Callable[[Event], None]:
        total = 0

        def heard(event: Event) -> None:
            nonlocal total
            if event["event"] == "battery":
                total = event["trials"]
            if event["event"] == "begin" and event["phase"] in ("try", "search"):
                self.progress.trying(op, event["impl"], max(0, event["number"]) + 1, total)

        return heard

    def _refuse_to_sanitize(self) -> None:
        if "sanitize" in self.settings.stages and not self.device.startswith("cuda"):
            raise UserError(
                f"--sanitize needs an NVIDIA GPU: torch sees none here (klab doctor), this is {self.device}"
            )

    def _sanitize(self, groups: list[Group]) -> None:
        """Each op's ways under each tool, those too that have killed a worker: it may be told why."""
        if "sanitize" not in self.settings.stages:
            return
        path = tools.compute_sanitizer()
        if path is None:
            raise UserError(f"--sanitize: {tools.compute_sanitizer_missing()}")
        sanitizer = Sanitizer(path, self.settings, self.journal, self.device)
        for group in {group.op: group for group in groups}.values():
            assert group.post.target is not None
            names = ways(group.impls, named=bool(self.settings.impls))
            todo = [(n, tool) for n in names for tool in self.settings.sanitizers]
            for name, tool in (one for one in todo if not sanitizer.done(group.op, *one)):
                self.progress.say(f"{group.op} {name} under {tool}")
                told = f"{name} under {tool}"
                heard = functools.partial(self.progress.trying, group.op, told)
                sanitizer.run(group.post.target, group.op, name, tool, heard)
                self.journal.save()

    def _profile(self, groups: list[Group]) -> None:
        """Which kernels each right way launches and what else it does; in workers of their own, after all timing."""
        if "time" not in self.settings.stages or self.settings.only_times:
            return
        series = [one for one in self.settings.series(self.device) if one["timer"] == "kernel"]
        for group in groups:
            names = self._to_profile(group, series)
            given_up: set[str] = set()
            while names:
                post = self._profiler_for(group)
                lost = post.work(
                    "profile",
                    lambda event, group=group: self._observe(group, event),  # type: ignore[misc]
                    op=group.op,
                    case=group.case,
                    impls=[n for n in names if not self._seen(group, n)],
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
        names = [n for n in group.names(interpreted=False) if self._right(group, n) and not self._faulted(group, n)]
        unknown = {n for one in series for n in self._untimed(group, names, one)}
        return [n for n in names if n in unknown or not self._seen(group, n)]

    def _untimed(self, group: Group, names: list[str], series: Mapping[str, str]) -> list[str]:
        return [n for n in names if self._right(group, n, series["pass"]) and not self._timed(group, n, series)]

    def _profiler_for(self, group: Group) -> Post:
        """A worker that times nothing afterwards; on a GPU one that has not timed before either."""
        target = group.post.target
        if not self.device.startswith("cuda"):
            return group.post
        found = next((p for p in self._posts if p.kind == "profiler" and p.target == target), None)
        return found or self._post(target.text if target else None, "profiler")

    # Looking back at what is known ---------------------------------------------------------------------

    def _write(self, group: Group, event: Event) -> None:
        fields = {k: v for k, v in event.items() if k != "event"}
        self.journal.write(event["event"], op=group.op, case=group.case, **fields)

    def _result(self, group: Group, name: str) -> dict[str, Any]:
        return result_of(self.journal.record, group.op, name, group.case)

    def _check_of(self, group: Group, name: str, of: str = "forward") -> dict[str, Any] | None:
        result = self._result(group, name)
        check: dict[str, Any] | None = result["check"] if of == "forward" else result["gradients"]
        return check

    def _unchecked(self, group: Group, name: str, of: str) -> bool:
        """Not looked at yet; gradients of what is wrong are not looked at."""
        before = self._check_of(group, name)
        possible = of == "forward" or before is None or before["status"] == "ok"
        return possible and self._check_of(group, name, of) is None

    def _right(self, group: Group, name: str, of: str = "forward") -> bool:
        return all((self._check_of(group, name, p) or {}).get("status") == "ok" for p in needed_checks(of))

    def _seen(self, group: Group, name: str) -> bool:
        return self._result(group, name)["inside"] is not None

    def _faulted(self, group: Group, name: str) -> bool:
        return any(t["status"] not in ("ok", "partial", "skipped") for t in self._result(group, name)["times"])

    def _may_time(self, group: Group, name: str, series: Mapping[str, str]) -> bool:
        """Not yet timed, and not known to be wrong or a culprit of earlier timing."""
        if self._timed(group, name, series) or self._faulted(group, name):
            return False
        checks = [self._check_of(group, name, of) for of in needed_checks(series["pass"])]
        return all(check is None or check["status"] == "ok" for check in checks)

    def _unfinished(self, group: Group, names: list[str]) -> list[str]:
        """Ways not yet checked, or right and not yet timed although timing was asked for."""
        timing = "time" in self.settings.stages
        native = set(group.names(interpreted=False))
        return [
            n
            for n in names
            if any(self._unchecked(group, n, of) for of in self._checks())
            or (timing and n in native and any(self._may_time(group, n, one) for one in self._native_series()))
        ]

    def _timed(self, group: Group, name: str, series: Mapping[str, str]) -> bool:
        return any(
            t["status"] != "partial" and all(t[k] == v for k, v in series.items())
            for t in self._result(group, name)["times"]
        )

    def _finished(self, group: Group) -> bool:
        return not self._unfinished(group, [i["name"] for i in group.impls])
