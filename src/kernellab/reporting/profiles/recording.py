"""What is said around a profile: which steps it is of, what recording cost, what there is to look at, and ranks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kernellab.reporting.text import numbers as words
from kernellab.reporting.text.fitting import Fit

Session = Mapping[str, Any]


def chosen(profiles: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """What is shown of many: of each name its last cycle, the warmest, and of ranks the first."""
    last = {one["name"]: one for one in profiles}
    found = list(last.values())
    return found[:1] if all("rank" in one["session"] for one in found) else found


def ways(sessions: Sequence[Session]) -> list[str]:
    """Of an op's several ways, how long a call takes, the quickest first. `klab bench` says it with more certainty."""
    timed = [one for one in sessions if one.get("impl") and one.get("plain_step_us")]
    if len(timed) < 2:
        return []
    timed.sort(key=lambda one: float(one["plain_step_us"]))
    widest = max(len(one["impl"]) for one in timed)
    label = words.case_label(timed[0]["case"])
    found = [f"{timed[0]['op']} {label}: a call without the profiler"]
    found += [f"  {one['impl']:<{widest}}  {words.duration(one['plain_step_us'])}" for one in timed]
    return [*found, ""]


def heading(one: Mapping[str, Any], of: int) -> list[str]:
    if of == 1:
        return []
    cycle = f", cycle {one['cycle']} of {len(one['session']['traces'])}" if len(one["session"]["traces"]) > 1 else ""
    return [f"── {one['name']}{cycle} ──"]


def ended(session: Session) -> list[str]:
    """That the program did not come to its end, of all it is said about."""
    why = session.get("ended")
    return [f"The program ended early, by {why}: this is what was recorded until then."] if why else []


def about(session: Session, folder: Path) -> list[str]:
    """Below a table: its steps by phase, the price of recording, memory, and where to look closer."""
    found = []
    if session.get("steps"):
        found.append(f"steps: {'; '.join(map(_stretch, session['steps']))}")
    found += _overhead(session)
    trained = session.get("trained")
    if trained:
        whose = "on the GPU" if trained["device"].startswith("cuda") else "of the process"
        found.append(f"peak memory: {words.memory(trained['peak_bytes'])} {whose}")
    found += [f"note: {note}" for note in session["notes"]]
    for name in session["traces"]:
        path = folder / "artifacts" / name
        more = [p.name for p in (path.with_suffix(".html"), path.with_suffix(".svg")) if p.exists()]
        found.append(f"trace: {'  '.join([name, *more])}")
    return Fit().sentences(found)


def _stretch(stretch: Mapping[str, Any]) -> str:
    first, last = stretch["first"], stretch["last"]
    cycle = f" (cycle {stretch['cycle']})" if stretch["phase"] == "active" else ""
    return f"{first if first == last else f'{first}–{last}'} {stretch['phase']}{cycle}"


def _overhead(session: Session) -> list[str]:
    recorded, plain = session.get("step_us"), session.get("plain_step_us")
    if recorded is None:
        return []
    if plain is None:
        return [f"a step took {words.duration(recorded)} while recorded; without, it was not timed"]
    more = recorded / plain - 1
    change = f"{100 * more:.0f} % more" if more >= 0 else f"{-100 * more:.0f} % less"
    return [f"overhead: a step took {words.duration(recorded)} recorded, {words.duration(plain)} not: {change}"]


def skipped(sessions: Sequence[Session]) -> list[str]:
    """Ways of an op without a trace, and why."""
    return [f"{one['impl']}: {one['status']}, {one['reason']}" for one in sessions if one.get("status", "ok") != "ok"]


def nothing(sessions: Sequence[Session], code: int) -> list[str]:
    """Why there is no trace."""
    found = skipped(sessions)
    if found:
        return ["nothing was profiled", *found]
    if code:
        return [f"the program ended with exit code {code} before anything was recorded"]
    return ["the program ended before anything was recorded: it left in the middle, or its steps were too few"]


# Ranks -------------------------------------------------------------------------------------------------


def together(found: Mapping[str, Any]) -> list[str]:
    """Who waits for whom, then a table, then compute by layer."""
    ranks, fit = found["ranks"], Fit()
    body = [
        [str(one["rank"]), str(one["all_reduces"]), *map(words.duration, (one["all_reduce_us"], one["wait_us"]))]
        for one in ranks
    ]
    lines = [*fit.sentences([_who_waits(found)]), ""]
    lines += fit.table(["rank", "all-reduces", "time in them", "of it waiting"], body, spare=[1])
    layers = [layer["layer"] for layer in ranks[0]["layers"]]
    if layers:
        head = ["layer", *(f"rank {one['rank']}" for one in ranks)]
        cells = [[one["layers"][at] if at < len(one["layers"]) else None for one in ranks] for at in range(len(layers))]
        body = [[name, *map(_cell, row)] for name, row in zip(layers, cells, strict=True)]
        lines += ["", *fit.sentences(["compute per layer, forward + backward"]), *fit.table(head, body)]
    return [*lines, ""]


def _who_waits(found: Mapping[str, Any]) -> str:
    ranks = found["ranks"]
    if not found["matched"]:
        return "The ranks exchanged nothing that was recorded."
    waiting = max(ranks, key=lambda one: one["wait_us"])
    late = max(ranks, key=lambda one: one["came_last"])
    said = (
        f"Rank {waiting['rank']} waited longest for the others, {words.duration(waiting['wait_us'])} of its "
        f"{words.duration(waiting['collective_us'])} in {words.count(waiting['collectives'], 'collective')}; "
        f"rank {late['rank']} came last to {late['came_last']} of {found['matched']}."
    )
    if found["uneven"]:
        said += " Not all ranks recorded the same number: those beyond the fewest are left out."
    return said


def _cell(layer: Mapping[str, Any] | None) -> str:
    if layer is None:
        return ""
    return f"{words.duration(layer['forward_us'])} + {words.duration(layer['backward_us'])}"
