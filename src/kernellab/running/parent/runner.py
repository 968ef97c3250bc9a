"""The run: load every target, plan its groups, have them worked on, keep what is observed.

The parent process lives here. It imports neither torch nor op files.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from typing import Any

from kernellab.base.errors import UserError, nearest
from kernellab.base.paths import cache_dir, file_name, replace_file
from kernellab.declaration.kinds import match_names
from kernellab.machine import tools
from kernellab.machine.environment import Environment, device_identity, machine_class, run_key
from kernellab.record.journal import Journal
from kernellab.record.settings import Settings
from kernellab.running.parent.battery import Trials
from kernellab.running.parent.failed_trials import Failures
from kernellab.running.parent.groups import Groups
from kernellab.running.parent.progress import Progress
from kernellab.running.parent.remaining_work import Group
from kernellab.running.parent.sanitizer import Sanitizer, ways
from kernellab.running.parent.worker_pool import Posts
from kernellab.running.parent.worker_slot import Event, Post


class Runner:
    def __init__(self, settings: Settings, journal: Journal, progress: Progress) -> None:
        self.settings, self.journal, self.progress = settings, journal, progress
        self.environment: Environment = journal.record["environment"]
        self.posts = Posts(settings, journal.folder / "artifacts")
        self._device: dict[str, Any] = {}  # what a worker says of it

    def run(self) -> None:
        """Do everything the settings ask for that the journal does not have yet."""
        stages = self.settings.stages
        try:
            posts = self._load()
            self._refuse_to_sanitize()
            self.settings.series(self.device)  # refuses timers there are not on this device
            planned = self._plan(posts)
            self._machine(planned)
            self.journal.save()
            groups = Groups(planned, self.settings, self.journal, self.posts, self.progress, self.device)
            groups.run()
            if "battery" in stages:
                self._search(self._battery(groups))
            if "sanitize" in stages:
                self._sanitize(planned)
            if "time" in stages and not self.settings.only_times:
                groups.profile()
            self.journal.write("complete")
        finally:
            self.close()

    def close(self) -> None:
        self.posts.close()

    @property
    def device(self) -> str:
        return str(self._device["device"])

    # Planning ------------------------------------------------------------------------------------------

    def _load(self) -> list[Post]:
        posts = [self.posts.open(target, "native") for target in dict.fromkeys(self.settings.targets)]
        for post in posts:
            assert post.target is not None
            self.progress.say(f"loading {post.target.text}")
            post.ready()
        self._device = posts[0].device
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
                impls = self._without_compile(op["impls"]) if self.settings.quick_check else op["impls"]
                groups += [Group(post, op["name"], case, impls) for case in op["cases"]]
        self._refuse_unknown_impls(posts)
        groups = self._own_cell(groups)
        sources = {op["name"]: op["source_hash"] for post in posts for op in post.ops}
        plan = [{"op": g.op, "case": g.case, "impls": {i["name"]: i["kind"] for i in g.impls}} for g in groups]
        self.journal.write("plan", groups=plan, sources=sources)
        return groups

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

    def _refuse_unknown_impls(self, posts: list[Post]) -> None:
        known = {name for post in posts for op in post.ops for name in op["known_impls"]}
        for name in self.settings.impls:
            if not match_names(name, known):
                raise UserError(f"no implementation {name!r}: {nearest(name, known)}")

    def _void_if_changed(self, op: Event) -> None:
        before = self.journal.record["sources"].get(op["name"])
        if before is not None and before != op["source_hash"]:
            self.progress.say(f"{op['name']} changed since the run began: it is done again")
            self.journal.write("void", op=op["name"])

    def _machine(self, groups: list[Group]) -> None:
        uuid = self._device["uuid"]
        identity, kind = device_identity(self.environment, uuid), machine_class(self.environment, uuid)
        key = run_key(self.environment, identity)
        before = self.journal.record["machine"].get("key")
        if before is not None and before != key:
            raise UserError(
                f"{self.journal.folder} was begun with other versions or on another device: start a new run"
            )
        wanted = "time" in self.settings.stages and not self.settings.only_times and groups
        ceilings = self._ceilings(identity) if wanted else None
        facts = {k: self._device[k] for k in ("device", "torch", "cuda", "peaks", "gpu")}
        named = {"name": identity, "class": kind, "key": key}
        self.journal.write("machine", machine={**facts, **named, "ceilings": ceilings})

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
        post = self.posts.open(None, "native")
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

    # Beyond the declared cases -------------------------------------------------------------------------

    def _battery(self, groups: Groups) -> list[tuple[Trials, list[str]]]:
        """Each op's ways tried with all that its declaration gives rise to; not those that have killed a worker."""
        done = []
        for group in _one_per_op(groups.groups):
            killed = groups.killers(group.op)
            file = next(op["file"] for op in group.post.ops if op["name"] == group.op)
            for interpreted in (False, True):
                names = [n for n in group.names(interpreted=interpreted) if n not in killed]
                if names:
                    post = self.posts.beside(group.post, "interpreter") if interpreted else group.post
                    where = " in Triton's interpreter" if interpreted else ""
                    self.progress.say(f"the battery of {group.op}{where}")
                    trials = Trials(group.op, post, self.settings, self.journal, Failures(group.op, file))
                    trials.run(names, self._trying(group.op))
                    done.append((trials, names))
            self.journal.save()
        return done

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
        path = tools.compute_sanitizer()
        if path is None:
            raise UserError(f"--sanitize: {tools.compute_sanitizer_missing()}")
        sanitizer = Sanitizer(path, self.settings, self.journal, self.device)
        for group in _one_per_op(groups):
            assert group.post.target is not None
            names = ways(group.impls, named=bool(self.settings.impls))
            todo = [(n, tool) for n in names for tool in self.settings.sanitizers]
            for name, tool in (one for one in todo if not sanitizer.done(group.op, *one)):
                self.progress.say(f"{group.op} {name} under {tool}")
                told = f"{name} under {tool}"
                heard = functools.partial(self.progress.trying, group.op, told)
                sanitizer.run(group.post.target, group.op, name, tool, heard)
                self.journal.save()


def _one_per_op(groups: list[Group]) -> list[Group]:
    return list({group.op: group for group in groups}.values())
