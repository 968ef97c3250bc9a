"""A trace of a million events, grown from a real one.

    python benchmarks/grow_trace.py small.json.gz grown.json --events 1000000 --names 2000

The real trace is repeated one copy after another in time, laid out as the profiler lays it out. Each copy has numbers
of its own wherever the profiler counts (correlation, External id, Sequence number), so that every call still finds its
kernel and every operator its backward. `--names N` gives operators, functions and kernels up to N different endings:
a long run of a large model has more names than a short one of a small model.
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TextIO

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))

from kernellab.traces.chrome_events import ChromeEvents
from kernellab.traces.text_chunks import read_chunks

# Numbers the profiler counts up.
COUNTED = (
    "External id",
    "correlation",
    "Sequence number",
    "Ev Idx",
    "Python id",
    "Python parent id",
    "Record function id",
)
VARIED = {"cpu_op", "python_function", "kernel"}


def grow(source: Path, target: Path, events: int, names: int) -> int:
    """Writes at least `events` events, in whole copies; returns how many."""
    read = ChromeEvents(read_chunks(source, []))
    all_of_it = list(read)
    once = [event for event in all_of_it if event["ph"] == "M"]
    again = [event for event in all_of_it if event["ph"] != "M"]
    times = [event["ts"] for event in again] + [event["ts"] + event.get("dur", 0) for event in again if "dur" in event]
    span = max(times) - min(times) + 1000
    step = 1 + max(
        [event["args"].get(key) or 0 for event in again if "args" in event for key in COUNTED]
        + [event["id"] for event in again if "id" in event]
    )
    written = len(once)
    with _opened(target) as file:
        top = {key: value for key, value in read.metadata.items() if key != "traceName"}
        file.write(json.dumps(top, indent=2).rstrip("}\n") + ',\n  "traceEvents": [\n')
        file.write(",\n".join(map(_written, once)))
        copy = 0
        while written < events:
            for event in _copy(again, copy, span, step, names):
                file.write(",\n" + _written(event))
            written += len(again)
            copy += 1
        file.write('\n  ],"traceName": "grown.json" }\n')
    return written


def _opened(path: Path) -> TextIO:
    return gzip.open(path, "wt", compresslevel=1) if path.suffix == ".gz" else path.open("w")


def _copy(events: list[dict[str, Any]], copy: int, span: float, step: int, names: int) -> Iterator[dict[str, Any]]:
    for number, event in enumerate(events):
        event = {**event, "ts": event["ts"] + copy * span}
        if "id" in event:
            event["id"] += copy * step
        if "args" in event:
            args = event["args"]
            event["args"] = args | {key: args[key] + copy * step for key in COUNTED if (args.get(key) or 0) > 0}
        if names and event.get("cat") in VARIED:
            event["name"] = f"{event['name']}_{(copy + number) % names}"
        yield event


def _written(event: Mapping[str, Any]) -> str:
    """As Kineto writes an event: a line for each field, the arguments on one."""
    fields = [f'    "{key}": {_number(value)}' for key, value in event.items() if key != "args"]
    if "args" in event:
        fields.append('    "args": {\n      ' + json.dumps(event["args"])[1:-1] + "\n    }")
    return "  {\n" + ",\n".join(fields) + "\n  }"


def _number(value: Any) -> str:
    return f"{value:.3f}" if isinstance(value, float) else json.dumps(value)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--names", type=int, default=0)
    asked = parser.parse_args()
    written = grow(asked.source, asked.target, asked.events, asked.names)
    print(f"{asked.target}: {written:,} events, {asked.target.stat().st_size / 1e6:.0f} MB")


if __name__ == "__main__":
    main()
