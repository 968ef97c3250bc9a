"""How long does a training step of a transformer take with the shipped kernels, and does it learn the same?

    python benchmarks/transformer.py OUT [--minutes 6] [--variants eager,patch] [--rounds 12] [--vocabulary 32000]
    python benchmarks/transformer.py OUT --plan
    python benchmarks/transformer.py OUT --page > table.md
    python benchmarks/transformer.py OUT --device cpu --tiny

The model is that of Llama 3.2 1B, from a configuration of `transformers`, with random weights: nothing is downloaded. A
step is forward, backward and AdamW, in bfloat16. The variants:

    eager           as transformers has it
    compile         torch.compile(model)
    liger           liger_kernel's own patch with its defaults, which also fuses the last matmul with the loss
    patch           kernellab.patch(model)
    patch+compile   kernellab.patch(model), then torch.compile

Every variant is a process of its own, because Liger patches functions that all models of a process share. First it
trains for 50 steps from the same weights on the same batches: its losses. Then all variants take turns: in each round,
in random order, each does one step to warm up and then steps that are timed, each with the device idle before and
after. Speeds are compared within rounds.

**When losses are equal.** Training amplifies rounding, so that no two ways of computing the same stay equal to the bit.
How much is measured, by two variants that are eager and are not timed, `rounded-1` and `rounded-2`. In these, one
weight in six, chosen at random, is moved to the next number of its dtype before training: the weights then differ as
two independent roundings of the same numbers do. A variant learns the same if, in each ten steps, its loss is never
further from eager's than twice the larger of the distances of these two so far, and four roundings of float32.

OUT has a file for each variant. What is finished in it is not measured again: losses as a whole, times by round. Eager
takes part whenever others are timed. After `--minutes` the program ends. A variant that failed is tried again with
`--retry` only. `--page` makes docs/results/transformer-h200.md. Liger must be importable: in the environment, or in a
folder of PYTHONPATH.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import select
import statistics
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))

from kernellab.base.errors import UserError
from kernellab.machine.environment import environment
from kernellab.stats.intervals import FEWEST, by_round, median_interval, paired_ratios
from transformer_variant import CONTROLS, SEED, STEPS, Document, Workload

TIMED = ("eager", "patch", "liger", "compile", "patch+compile")
# Eager and the controls come first: without them nothing can be judged.
ORDER = ("eager", *CONTROLS, *TIMED[1:])

STEPS_PER_TURN = 3  # timed, after one that is not
WINDOW = 10  # steps over which distances of losses are compared
FACTOR, ROUNDINGS = 2.0, 4.0
_LEAST_LEFT_S = 45.0  # with less time left no variant is begun
_WARMUP_STEPS = 3  # where the losses are known already
_FORMAT = 1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--minutes", type=float, default=6.0, help="after which the program ends")
    parser.add_argument("--variants", help="only these, separated by commas; eager takes part")
    parser.add_argument("--rounds", type=int, default=12, help="in which every variant has a turn")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--vocabulary", type=int, default=Workload.vocabulary)
    parser.add_argument("--batch", type=int, default=Workload.batch)
    parser.add_argument("--tiny", action="store_true", help="a tiny model, to try the program")
    parser.add_argument("--retry", action="store_true", help="try variants again that failed")
    parser.add_argument("--plan", action="store_true", help="what is left to do")
    parser.add_argument("--page", action="store_true", help="the table, from the files in OUT")
    args = parser.parse_args()
    if args.page:
        print(page(args.out))
        return
    workload = Workload(args.device, vocabulary=args.vocabulary, batch=args.batch)
    workload = Workload.tiny(args.device) if args.tiny else workload
    store = Store(args.out, workload, retry=args.retry)
    chosen = choose(args.variants)
    print(store.describe(chosen, args.rounds), flush=True)
    if not args.plan:
        args.out.mkdir(parents=True, exist_ok=True)
        with Session(store, time.monotonic() + 60 * args.minutes) as session:
            session.run(chosen, args.rounds)


def choose(names: str | None) -> list[str]:
    wanted = names.split(",") if names else list(ORDER)
    for name in wanted:
        if name not in ORDER:
            raise UserError(f"no variant {name!r}: known: {', '.join(ORDER)}")
    return [name for name in ORDER if name in wanted or name == "eager"]


# The files ---------------------------------------------------------------------------------------------


class Store:
    """What OUT has of each variant."""

    def __init__(self, out: Path, workload: Workload, *, retry: bool = False) -> None:
        self.out, self.workload = out, workload
        self.documents = {document["variant"]: document for document in load(out)}
        for document in self.documents.values():
            if document["workload"] != asdict(workload):
                raise UserError(f"{out} has results of another model or device: name another folder")
        if retry:
            self.documents = {name: found for name, found in self.documents.items() if found["status"] == "ok"}

    def failed(self, variant: str) -> bool:
        return variant in self.documents and self.documents[variant]["status"] != "ok"

    def has_losses(self, variant: str) -> bool:
        return variant in self.documents

    def rounds(self, variant: str) -> int:
        return len(self.documents[variant]["turns"]) if variant in self.documents else 0

    def lacks_rounds(self, variant: str, rounds: int) -> bool:
        return variant in TIMED and not self.failed(variant) and self.rounds(variant) < rounds

    def left(self, chosen: list[str], rounds: int) -> list[str]:
        """The variants to start: those that lack something, and eager where others are to be timed."""
        left = [name for name in chosen if not self.has_losses(name) or self.lacks_rounds(name, rounds)]
        if any(name in TIMED for name in left) and not self.failed("eager"):
            left = list(dict.fromkeys(["eager", *left]))
        return left

    def describe(self, chosen: list[str], rounds: int) -> str:
        lines = [f"Llama: {self.workload.label}, on {self.workload.device}"]
        for name in chosen:
            missing = [] if self.has_losses(name) else [f"{STEPS} losses"]
            if self.lacks_rounds(name, rounds):
                missing.append(f"{rounds - self.rounds(name)} rounds")
            state = self.documents[name]["reason"] if self.failed(name) else ", ".join(missing) or "finished"
            lines.append(f"{name}: {state}")
        return "\n".join(lines)

    def write(self, variant: str, **fields: object) -> None:
        blank: Document = {
            "format": _FORMAT,
            "variant": variant,
            "status": "ok",
            "reason": None,
            "workload": asdict(self.workload),
            "date": time.strftime("%Y-%m-%d"),
            "environment": environment(),
            "turns": [],
        }
        self.documents[variant] = {**blank, **self.documents.get(variant, {}), **fields}
        scratch = self._path(variant).with_suffix(".new")
        scratch.write_text(json.dumps(self.documents[variant], indent=1))
        scratch.replace(self._path(variant))

    def _path(self, variant: str) -> Path:
        return self.out / f"{variant}.json"


def load(out: Path) -> list[Document]:
    found = [json.loads(path.read_text()) for path in sorted(out.glob("*.json"))]
    return [document for document in found if document.get("format") == _FORMAT]


# Running -----------------------------------------------------------------------------------------------


class VariantFailed(Exception):
    """A variant cannot go on: the reason."""


class OutOfTime(Exception):
    """The minutes are over."""


class Process:
    """A variant in its own process: answers commands, one JSON line each."""

    def __init__(self, variant: str, store: Store, end: float) -> None:
        self.variant, self._end = variant, end
        path = os.pathsep.join([str(ROOT / "src"), *filter(None, [os.environ.get("PYTHONPATH")])])
        workload = json.dumps(asdict(store.workload))
        self._log = (store.out / f"{variant}.log").open("w")
        self._process = subprocess.Popen(
            [sys.executable, str(ROOT / "benchmarks" / "transformer_variant.py"), variant],
            env={**os.environ, "PYTHONPATH": path, "KERNELLAB_WORKLOAD": workload},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )

    def ask(self, **command: object) -> Document:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps(command) + "\n")
            self._process.stdin.flush()
        if not select.select([self._process.stdout], [], [], max(0.0, self._end - time.monotonic()))[0]:
            raise OutOfTime
        line = self._process.stdout.readline()
        if not line:
            raise VariantFailed(f"its process ended with exit code {self._process.wait()}: see {self._log.name}")
        answer: Document = json.loads(line)
        if "error" in answer:
            raise VariantFailed(answer["error"])
        return answer

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        self._log.close()


class Session:
    """The processes that take turns."""

    def __init__(self, store: Store, end: float) -> None:
        self.store, self._end = store, end
        self._processes: dict[str, Process] = {}
        self._random = random.Random(SEED)

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes.values():
            process.close()

    def run(self, chosen: list[str], rounds: int) -> None:
        try:
            for variant in self.store.left(chosen, rounds):
                if time.monotonic() > self._end - _LEAST_LEFT_S:
                    raise OutOfTime
                self._start(variant, rounds)
            self._take_turns(rounds)
        except OutOfTime:
            print("the minutes are over: call again to continue", flush=True)

    def _start(self, variant: str, rounds: int) -> None:
        """Train for the losses, or where they are known to warm up."""
        began = time.monotonic()
        self._processes[variant] = process = Process(variant, self.store, self._end)
        try:
            if self.store.has_losses(variant):
                process.ask(do="train", steps=_WARMUP_STEPS)
            else:
                self.store.write(variant, **process.ask(do="train", steps=STEPS))
        except VariantFailed as failure:
            self._give_up(variant, failure)
        print(f"{variant}: {time.monotonic() - began:.0f} s to start and train", flush=True)
        if not self.store.lacks_rounds(variant, rounds) and variant != "eager":
            self._end_process(variant)

    def _take_turns(self, rounds: int) -> None:
        session = time.strftime("%Y%m%d-%H%M%S")
        done = 0
        while True:
            lacking = [name for name in self._processes if self.store.lacks_rounds(name, rounds)]
            if not lacking:
                return
            turns = list(dict.fromkeys(["eager", *lacking])) if "eager" in self._processes else lacking
            self._random.shuffle(turns)
            samples = {}
            for variant in turns:
                try:
                    samples[variant] = self._processes[variant].ask(do="time", steps=STEPS_PER_TURN)["samples_s"]
                except VariantFailed as failure:
                    self._give_up(variant, failure)
            done += 1
            for variant, times in samples.items():  # a round that the end interrupts is not kept
                known = self.store.documents[variant]["turns"]
                self.store.write(variant, turns=[*known, {"session": session, "round": done, "samples_s": times}])
            print(f"round {done}: " + ", ".join(f"{v} {min(t):.4f} s" for v, t in sorted(samples.items())), flush=True)

    def _give_up(self, variant: str, failure: VariantFailed) -> None:
        self.store.write(variant, status="error", reason=str(failure))
        print(f"{variant} failed: {failure}", flush=True)
        self._end_process(variant)

    def _end_process(self, variant: str) -> None:
        process = self._processes.pop(variant, None)
        if process is not None:
            process.close()


# The page ----------------------------------------------------------------------------------------------


def page(out: Path) -> str:
    documents = {document["variant"]: document for document in load(out)}
    if "eager" not in documents or documents["eager"]["status"] != "ok":
        raise UserError(f"{out} has no results of eager: nothing can be compared")
    lines = [
        *_stamp(documents),
        "",
        f"Llama with random weights: {Workload(**documents['eager']['workload']).label}.",
        "",
    ]
    head = ["variant", "step, median", "99 %", "middle half", "over eager", "99 % of it", "peak memory", "first step"]
    head += ["last loss", "farthest from eager", "learns the same"]
    lines += [_line(head), "|" + "---|" * len(head)]
    lines += [_line(_row(documents, name)) for name in TIMED if name in documents]
    lines += ["", *_remarks(documents)]
    return "\n".join(lines)


def _row(documents: dict[str, Document], variant: str) -> list[str]:
    document, eager = documents[variant], documents["eager"]
    if document["status"] != "ok":
        return [variant, "failed", *["–"] * 9]
    times = _by_round(document)
    values = list(times.values())
    cells = [variant]
    if values:
        middle = statistics.quantiles(values, n=4) if len(values) > 1 else [values[0]] * 3
        cells += [f"{1e3 * statistics.median(values):.1f} ms", _interval(values, 1e3, " ms")]
        cells += [f"{1e3 * middle[0]:.1f}–{1e3 * middle[2]:.1f} ms"]
    else:
        cells += ["–"] * 3
    ratios = paired_ratios(times, _by_round(eager)) if variant != "eager" else []
    cells += [f"{statistics.median(ratios):.3f}×", _interval(ratios, 1, "×")] if ratios else ["–", "–"]
    peak = document["peak_bytes"]
    cells += [f"{peak / 2**30:.2f} GiB" if peak else "–", f"{document['first_step_s']:.1f} s"]
    distance, verdict = judge(documents, variant)
    return [*cells, f"{document['losses'][-1]:.4f}", f"{distance:.2g}" if variant != "eager" else "–", verdict]


def _interval(values: list[float], scale: float, unit: str) -> str:
    if len(values) < FEWEST:
        return f"only {len(values)} rounds"
    low, high = median_interval(values)
    return f"{scale * low:.4g}–{scale * high:.4g}{unit}"


def _by_round(document: Document) -> dict[int, float]:
    """A time for each turn. Turns of the same round of one session have the same key in every variant."""
    samples = [(_key(turn), sample) for turn in document["turns"] for sample in turn["samples_s"]]
    return by_round([sample for _, sample in samples], [key for key, _ in samples])


def _key(turn: Document) -> int:
    return int(turn["session"].replace("-", "")) * 10_000 + turn["round"]


def distances(losses: list[float], eager: list[float]) -> list[float]:
    """The largest distance from eager's losses in every window, and before it."""
    apart = [abs(mine - theirs) for mine, theirs in zip(losses, eager, strict=True)]
    return [max(apart[: end + WINDOW]) for end in range(0, len(apart), WINDOW)]


def judge(documents: dict[str, Document], variant: str) -> tuple[float, str]:
    """The largest distance from eager's losses, and whether rounding explains it."""
    document, eager = documents[variant], documents["eager"]
    if variant == "eager":
        return 0.0, "–"
    if any(loss != loss for loss in document["losses"]):  # NaN
        return float("nan"), "no: a loss is not a number"
    mine = distances(document["losses"], eager["losses"])
    if abs(document["weights_sum"] - eager["weights_sum"]) > 1e-9 * abs(eager["weights_sum"]):
        return mine[-1], "cannot tell: it began with other weights"
    controls = [documents[name] for name in CONTROLS if name in documents and documents[name]["status"] == "ok"]
    if not controls:
        return mine[-1], "cannot tell: the rounded variants are missing"
    allowed = [max(found) for found in zip(*(distances(c["losses"], eager["losses"]) for c in controls), strict=True)]
    floor = ROUNDINGS * 2.0**-23 * max(eager["losses"])
    for window, (distance, control) in enumerate(zip(mine, allowed, strict=True)):
        if distance > FACTOR * control + floor:
            last = min(len(eager["losses"]), (window + 1) * WINDOW)
            return mine[-1], f"no: {distance:.2g} by step {last}, rounding explains {control:.2g}"
    return mine[-1], f"yes: rounding explains {allowed[-1]:.2g}"


def _remarks(documents: dict[str, Document]) -> list[str]:
    eager = documents["eager"]
    first, last = eager["losses"][0], eager["losses"][-1]
    lines = [
        f"- A step is forward, backward and AdamW of {eager['parameters'] / 1e6:.4g} million parameters. Single steps "
        f"are timed, with the device idle before and after; a round counts with the median of its {STEPS_PER_TURN}.",
        f"- Eager's loss falls from {first:.4f} to {last:.4f} in {len(eager['losses'])} steps.",
        f"- A variant learns the same if, in each {WINDOW} steps, its loss is never further from eager's than "
        f"{FACTOR:g} times the distance of the farther of two eager runs from weights that were rounded otherwise.",
    ]
    for variant in ORDER:
        document = documents.get(variant)
        if document is None:
            lines.append(f"- {variant}: not measured yet")
        elif document["status"] != "ok":
            lines.append(f"- {variant}: {document['reason']}")
        elif document.get("patched"):
            lines.append(f"- {variant}: {document['patched']}")
    return lines


def _stamp(documents: dict[str, Document]) -> list[str]:
    found = list(documents.values())
    machines = sorted({document.get("device_name", "") for document in found} - {""})
    drivers = sorted({gpu["driver"] for document in found for gpu in document["environment"]["gpus"]})
    versions = sorted({f"{k} {v}" for document in found for k, v in document.get("versions", {}).items()})
    python = sorted({document["environment"]["python"] for document in found})
    return [
        f"- machine: {', '.join(machines)}" + (f", driver {', '.join(drivers)}" if drivers else ""),
        f"- date: {', '.join(sorted({document['date'] for document in found}))}",
        f"- versions: {', '.join(versions)}, Python {', '.join(python)}",
        f"- commits: {', '.join(sorted({document['environment']['commit'] or 'unknown' for document in found}))}",
        f"- script: `benchmarks/transformer.py`; the seed is {SEED}",
    ]


def _line(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"


if __name__ == "__main__":
    try:
        main()
    except UserError as error:
        sys.exit(error.message)
