"""How well the history finds what was planted, and how it stands a thousand runs, two writers and a kill.

    python benchmarks/history.py [--seeds 1000] [--runs 1000] [--kills 3] [--parts speed] > docs/results/history.md

Change points: histories of 200 commits with 1 % of noise from run to run; in half of them the time grows by 3 % at one
commit between the 20th and the 180th. Speed: runs made of a real journal of tests/samples, each of another commit.
Writers: two processes write and index runs at once, and one is killed at a random moment.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import platform
import random
import signal
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator
from datetime import date
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests")]

from kernellab.history.index import Index
from kernellab.history.queries import all_runs
from kernellab.machine.environment import environment
from kernellab.stats.changes import Change, find_changes
from support.histories import commit_name, write_run

COMMITS, STEP, NOISE = 200, 0.03, 0.01
WRITER = """
import sys
from pathlib import Path
from kernellab.history.index import add_run
from support.histories import write_run
runs, name, count = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
for number in range(count):
    add_run(write_run(runs / f"{name}-{number:04}", number=number), runs)
    print(number, flush=True)
"""


# Change points -----------------------------------------------------------------------------------------


def history(draw: random.Random, runs: int, at: int | None = None, drift: float = 0.0) -> list[list[float]]:
    """Times by commit. `drift`: how much of a commit's deviation the next one keeps, as on a machine that drifts."""
    deviation, groups = 0.0, []
    for commit in range(COMMITS):
        deviation = drift * deviation + math.sqrt(1 - drift**2) * draw.gauss(0, NOISE)
        level = 10.0 * (1 + STEP if at is not None and commit >= at else 1)
        single = [deviation] if drift else [draw.gauss(0, NOISE) for _ in range(runs)]
        groups.append([level * math.exp(value) for value in single])
    return groups


def near(changes: list[Change], at: int, distance: int) -> bool:
    return any(abs(change.at - at) <= distance for change in changes)


def change_points(seeds: int) -> Iterator[tuple[str, str, str, bool]]:
    for runs, distance, place in (
        (1, 1, "within one commit, one run per commit"),
        (5, 0, "at the exact commit, five runs per commit"),
    ):
        found = exact = placed = 0
        for seed in range(seeds):
            draw = random.Random(f"{seed} planted {runs}")
            at = draw.randrange(20, COMMITS - 20)
            changes = find_changes(history(draw, runs, at))
            found += near(changes, at, distance)
            exact += near(changes, at, 0)
            placed += any(change.earliest <= at <= change.latest for change in changes)
        detail = (
            f"{percent(found, seeds)}; exact in {percent(exact, seeds)}, in the reported range {percent(placed, seeds)}"
        )
        yield f"a change of 3 % is found {place}", "95 of 100", detail, found >= 0.95 * seeds
    for runs in (1, 5):
        alarms = sum(bool(find_changes(history(random.Random(f"{seed} flat {runs}"), runs))) for seed in range(seeds))
        name = f"flat histories with a false alarm, {'one run' if runs == 1 else 'five runs'} per commit"
        yield name, "at most 2 of 100", percent(alarms, seeds), alarms <= 0.02 * seeds
    for drift in (0.3, 0.6):
        alarms = sum(
            bool(find_changes(history(random.Random(f"{seed} {drift}"), 1, drift=drift))) for seed in range(seeds)
        )
        yield (
            f"the same on a machine that keeps {100 * drift:.0f} % of its deviation",
            "–",
            percent(alarms, seeds),
            True,
        )


def percent(count: int, total: int) -> str:
    return f"{100 * count / total:.1f} % of {total}"


# Speed -------------------------------------------------------------------------------------------------


def make_runs(sample: str, folder: Path, count: int) -> None:
    """Runs made of the journal of a real run of gelu, each of another commit and with other times."""
    with tarfile.open(ROOT / "tests" / "samples" / sample) as archive:
        journal = archive.extractfile("./run-gelu/journal.jsonl")
        assert journal is not None
        lines = [json.loads(line) for line in journal.read().splitlines()]
    draw = random.Random(sample)
    for number in range(count):
        factor = math.exp(draw.gauss(0, NOISE)) * (1 + STEP if number > 0.6 * count else 1)
        (folder / f"{number:05}-gelu").mkdir(parents=True)
        with (folder / f"{number:05}-gelu" / "journal.jsonl").open("w") as file:
            file.writelines(json.dumps(_varied(line, number, factor)) + "\n" for line in lines)


def _varied(line: dict[str, object], number: int, factor: float) -> dict[str, object]:
    if line["event"] == "run":
        committed = time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime(1_750_000_000 + number * 3600))
        stated = {"commit": commit_name(number), "committed": committed, "branch": "main"}
        return {**line, "environment": {**line["environment"], **stated}}  # type: ignore[dict-item]
    if line["event"] == "round":
        scaled = {impl: [us * factor for us in values] for impl, values in line["samples_us"].items()}  # type: ignore
        return {**line, "samples_us": scaled}
    return line


def speed(count: int) -> Iterator[tuple[str, str, str, bool]]:
    for sample, label in (("records_cpu.tar.gz", "CPU"), ("records_h200.tar.gz", "H200")):
        with project() as folder:
            make_runs(sample, folder / "runs", count)
            size = (folder / "runs" / "00000-gelu" / "journal.jsonl").stat().st_size
            rebuild, cpu = timed(folder, "history", "--rebuild")
            what = f"the index is made of {count} runs of gelu on a {label} ({size >> 10} KiB each)"
            yield what, "10 s", f"{rebuild:.1f} s ({cpu:.1f} s of CPU time)", rebuild < 10
            shown = [timed(folder, "history", "gelu") for _ in range(5)]
            median, cpu = (statistics.median(column) for column in zip(*shown, strict=True))
            yield (
                "`klab history gelu` on it, start included",
                "0.5 s",
                f"{median:.2f} s ({cpu:.2f} s of CPU time)",
                median < 0.5,
            )


def timed(folder: Path, *words: str) -> tuple[float, float]:
    """Seconds of a command, and of CPU time."""
    before, began = os.times(), time.perf_counter()
    subprocess.run([sys.executable, "-m", "kernellab", *words], cwd=folder, env=child_environment(), check=True,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip
    took, after = time.perf_counter() - began, os.times()
    return took, after.children_user + after.children_system - before.children_user - before.children_system


# Writers -----------------------------------------------------------------------------------------------


def writers(count: int, kills: int) -> Iterator[tuple[str, str, str, bool]]:
    lost = damaged = unreadable = 0
    for attempt in range(kills):
        with project() as folder:
            written, sound, states = _kill_one(folder / "runs", count, random.Random(f"kill {attempt}"))
            complete = sum(state == "complete" for state in states)
            lost += written - min(written, complete)
            unreadable += sum(state == "unreadable" for state in states)
            damaged += not sound
    detail = (
        f"{lost} runs lost, {damaged} indices damaged, {unreadable} runs half written when killed, in {kills} attempts"
    )
    yield (
        f"two processes write {count} runs each at once, one is killed",
        "0 lost, 0 damaged",
        detail,
        lost == damaged == 0,
    )


def _kill_one(runs: Path, count: int, draw: random.Random) -> tuple[int, bool, list[str]]:
    """The number of runs that were reported as written, whether the index was sound, and the states of all runs."""
    first, second = (
        subprocess.Popen([sys.executable, "-c", WRITER, str(runs), name, str(count)], env=child_environment(),
                         stdout=subprocess.PIPE, text=True)
        for name in "ab"
    )  # fmt: skip
    assert first.stdout is not None
    assert second.stdout is not None
    written = draw.randrange(count // 10, 9 * count // 10)
    for _ in range(written):
        first.stdout.readline()
    time.sleep(draw.random() / 50)
    first.send_signal(signal.SIGKILL)
    written += len(first.stdout.readlines()) + len(second.stdout.readlines())
    second.wait()
    with Index(runs) as index:
        sound = index.connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        index.refresh()
        return written, sound, [run.state for run in all_runs(index)]


# The example of docs/history.md ------------------------------------------------------------------------


def write_example(runs: Path) -> None:
    """A run of each of 40 commits. `triton` takes 3 % longer from one on, `cuda` 10 % longer for three of them."""
    draw = random.Random("example")
    for number in range(40):
        levels = {
            "torch": 35.3,
            "cuda": 34.6 * (1.1 if 33 <= number < 36 else 1),
            "triton": 34.7 * (1.03 if number >= 25 else 1),
        }
        times = {impl: level * math.exp(draw.gauss(0, 0.005)) for impl, level in levels.items()}
        write_run(runs / f"{number:03}-gelu", times, number=number, size=16384, machine="an invented GPU")


@contextlib.contextmanager
def project() -> Iterator[Path]:
    """A folder for runs, with a cache of its own."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["KERNELLAB_CACHE"] = str(Path(folder) / "cache")
        (Path(folder) / "runs").mkdir()
        yield Path(folder)


def child_environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT / "tests")])}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=1000)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--kills", type=int, default=3)
    parser.add_argument("--parts", default="changes,speed,writers", help="which parts to measure")
    parser.add_argument("--example", metavar="DIR", help="only write the example of docs/history.md to DIR/runs")
    args = parser.parse_args()
    if args.example:
        write_example(Path(args.example) / "runs")
        return 0
    words = f"python benchmarks/history.py --seeds {args.seeds} --runs {args.runs} --kills {args.kills}"
    here, load = environment(), os.getloadavg()[0]
    packages = here["packages"]
    print(f"""# The history: change points, speed, two writers

- machine: {here["cpu"]["cores"]} cores of an {here["cpu"]["name"]}, no GPU; load average {load:.1f} when it began
- date: {date.today()}
- versions: Python {platform.python_version()}, kernellab {packages["kernellab"]}, torch {packages["torch"]}
- script: `benchmarks/history.py`, as `{words}`

Histories of {COMMITS} commits with {100 * NOISE:.0f} % of noise from run to run. In half of them the time grows by
{100 * STEP:.0f} % at one commit. Runs are made of real journals of `tests/samples`. Seeds are 0, 1, 2, …: the figures
of change points are the same on every machine.

| promised | limit | found | |
|---|---|---|---|""")
    kept = True
    parts = {
        "changes": change_points(args.seeds),
        "speed": speed(args.runs),
        "writers": writers(args.runs // 2, args.kills),
    }
    for part in args.parts.split(","):
        for what, limit, found, good in parts[part]:
            print(
                f"| {what} | {limit} | {found} | {'–' if limit == '–' else 'kept' if good else 'not kept'} |",
                flush=True,
            )
            kept = kept and good
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
