"""Makes a trace of a million events from a small real one.

    python benchmarks/grow_trace.py small.json.gz grown.json --events 1000000 --names 2000

Copies of the real trace follow each other in time, in the profiler's own layout. Each copy has its own values where the
profiler numbers things (correlation, External id, Sequence number), so every call still finds its kernel and every
operator its backward. `--names N` gives operators, functions and kernels up to N different suffixes: a long run of a
large model has more names than a short run of a small one.
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

# Fields in which the profiler numbers things.
NUMBERED = (
    "External id",
    "correlation",
    "Sequence number",
    "Ev Idx",
    "Python id",
    "Python parent id",
    "Record function id",
)
RENAMED = {"cpu_op", "python_function", "kernel"}


def grow(source: Path, target: Path, events: int, names: int) -> int:
    """Writes at least `events` events, in whole copies; returns the number written."""
    reader = ChromeEvents(read_chunks(source, []))
    everything = list(reader)
    metadata = [event for event in everything if event["ph"] == "M"]
    repeated = [event for event in everything if event["ph"] != "M"]
    times = [event["ts"] for event in repeated] + [
        event["ts"] + event.get("dur", 0) for event in repeated if "dur" in event
    ]
    span = max(times) - min(times) + 1000
    step = 1 + max(
        [event["args"].get(key) or 0 for event in repeated if "args" in event for key in NUMBERED]
        + [event["id"] for event in repeated if "id" in event]
    )
    written = len(metadata)
    with _open(target) as file:
        top = {key: value for key, value in reader.metadata.items() if key != "traceName"}
        file.write(json.dumps(top, indent=2).rstrip("}\n") + ',\n  "traceEvents": [\n')
        file.write(",\n".join(map(_format_event, metadata)))
        copy = 0
        while written < events:
            for event in _copy(repeated, copy, span, step, names):
                file.write(",\n" + _format_event(event))
            written += len(repeated)
            copy += 1
        file.write('\n  ],"traceName": "grown.json" }\n')
    return written


def _open(path: Path) -> TextIO:
    return gzip.open(path, "wt", compresslevel=1) if path.suffix == ".gz" else path.open("w")


def _copy(events: list[dict[str, Any]], copy: int, span: float, step: int, names: int) -> Iterator[dict[str, Any]]:
    for number, event in enumerate(events):
        event = {**event, "ts": event["ts"] + copy * span}
        if "id" in event:
            event["id"] += copy * step
        if "args" in event:
            args = event["args"]
            event["args"] = args | {key: args[key] + copy * step for key in NUMBERED if (args.get(key) or 0) > 0}
        if names and event.get("cat") in RENAMED:
            event["name"] = f"{event['name']}_{(copy + number) % names}"
        yield event


def _format_event(event: Mapping[str, Any]) -> str:
    """An event as Kineto writes it: one line per field, all arguments on one line."""
    fields = [f'    "{key}": {_format_value(value)}' for key, value in event.items() if key != "args"]
    if "args" in event:
        fields.append('    "args": {\n      ' + json.dumps(event["args"])[1:-1] + "\n    }")
    return "  {\n" + ",\n".join(fields) + "\n  }"


def _format_value(value: Any) -> str:
    return f"{value:.3f}" if isinstance(value, float) else json.dumps(value)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--names", type=int, default=0)
    args = parser.parse_args()
    written = grow(args.source, args.target, args.events, args.names)
    print(f"{args.target}: {written:,} events, {args.target.stat().st_size / 1e6:.0f} MB")


if __name__ == "__main__":
    main()
