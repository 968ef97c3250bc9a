"""Flame graphs: the time spent in each stack, as a picture, as a file for speedscope, and as text.

The picture is one SVG file, or one HTML file, that needs nothing else. Widths are percentages, so that it fits a narrow
screen. Its script zooms and searches; without the script the picture is the same, but static.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from html import escape

from kernellab.reporting.html.parts import asset, label, source_hash
from kernellab.reporting.text.numbers import count, duration

Stacks = Mapping[tuple[str, ...], int]  # frames, outermost first, with the nanoseconds spent in the innermost

MOST_FRAMES = 15_000  # drawn: a browser shows as many without delay
_NAME_CHARACTERS = 200  # of a name in the picture
_ROW_HEIGHT, _TOP = 18, 84  # pixels

_PYTHON = re.compile(r"^(?P<file>.*)\((?P<line>\d+)\): (?P<name>.*)$")
_BUILT_IN = re.compile(r"^<built-in (method|function) (?P<name>\w+)")
_OPERATOR = re.compile(r"^[a-z_][\w.]*::[\w.: ]+$|^\w+Backward\d*$")


def text(stacks: Stacks) -> str:
    """Collapsed stacks, the heaviest first: a line for each, its frames separated by semicolons, then nanoseconds."""
    times: dict[str, int] = {}
    for frames, spent_ns in stacks.items():
        line = ";".join(label(name).replace(";", ":") for name in frames)
        times[line] = times.get(line, 0) + spent_ns
    heaviest_first = sorted(times.items(), key=lambda item: (-item[1], item[0]))
    return "".join(f"{line} {spent_ns}\n" for line, spent_ns in heaviest_first)


def speedscope(title: str, stacks_by_name: Mapping[str, Stacks]) -> str:
    """A file for speedscope, with a profile for each name, such as GPU time and CPU time."""
    frames: dict[str, int] = {}  # with their numbers
    profiles = []
    for name, stacks in stacks_by_name.items():
        samples = [[frames.setdefault(label(frame), len(frames)) for frame in stack] for stack in stacks]
        weights = list(stacks.values())
        profiles.append(
            {"type": "sampled", "name": label(name), "unit": "nanoseconds", "startValue": 0}
            | {"endValue": sum(weights), "samples": samples, "weights": weights}
        )
    document = {
        "$schema": "https://www.speedscope.app/file-format-schema.json",
        "name": label(title),
        "exporter": "kernellab",
        "activeProfileIndex": 0,
        "shared": {"frames": [_speedscope_frame(name) for name in frames]},
        "profiles": profiles,
    }
    return json.dumps(document)


def _speedscope_frame(name: str) -> dict[str, str | int]:
    python = _PYTHON.match(name)
    if python is None:
        return {"name": name}
    return {"name": python["name"] or name, "file": python["file"], "line": int(python["line"])}


@dataclass
class _Frame:
    name: str
    depth: int
    left_ns: int = 0  # the time drawn to its left
    total_ns: int = 0  # including the frames inside it
    inner: dict[str, _Frame] = field(default_factory=dict)


def svg(title: str, stacks: Stacks, quantity: str = "time") -> str:
    """The picture; `quantity` says what the widths are, such as GPU time."""
    script = f"<script><![CDATA[\n{asset(__file__, 'flame.js')}]]></script>\n"
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{_picture(title, stacks, quantity, script)}'


def page(title: str, stacks: Stacks, quantity: str = "time") -> str:
    """The picture as an HTML document, as a frame inside another document needs it."""
    script = page_script()
    policy = f"default-src 'none'; script-src {source_hash(script)}; style-src 'unsafe-inline'; base-uri 'none'"
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="color-scheme" content="light dark">'
        f"<title>{escape(label(title, _NAME_CHARACTERS))}</title><style>body {{ margin: 0 }}</style></head>\n"
        f"<body>{_picture(title, stacks, quantity)}<script>{script}</script></body></html>\n"
    )


def page_script() -> str:
    """The script of `page`, which the policy of a document around it must allow."""
    return asset(__file__, "flame.js") + asset(__file__, "frame.js")


def height(stacks: Stacks) -> int:
    """The height in pixels with every frame drawn."""
    return _height(max(map(len, stacks), default=0))


def _height(deepest: int) -> int:
    return _TOP + _ROW_HEIGHT * (deepest + 1) + 8


def _picture(title: str, stacks: Stacks, quantity: str, script: str = "") -> str:
    root = _tree(stacks, f"all {quantity}")
    frames = _lay_out(root)
    drawn = [frame for frame in frames if frame.total_ns > 0]
    if len(drawn) > MOST_FRAMES:
        least_ns = sorted((frame.total_ns for frame in drawn), reverse=True)[MOST_FRAMES - 1]
        drawn = [frame for frame in drawn if frame.total_ns >= least_ns][:MOST_FRAMES]
    deepest = max(frame.depth for frame in drawn) if drawn else 0
    summary = f"{duration(root.total_ns / 1e3)} of {quantity} in {count(len(stacks), 'stack')}"
    if len(drawn) < len(frames):
        summary += f"; {count(len(frames) - len(drawn), 'thinnest frame')} not drawn"
    if not drawn:
        summary = f"no {quantity} was recorded"
    height = _height(deepest)
    heading = escape(label(title, _NAME_CHARACTERS))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="100%" height="{height}" id="flame">\n'
        f"<title>{heading}</title>\n<style>{asset(__file__, 'flame.css')}</style>\n"
        f'<style id="dark" media="(prefers-color-scheme: dark)">{asset(__file__, "flame-dark.css")}</style>\n'
        '<rect class="paper" width="100%" height="100%"/>\n'
        f'<text class="head" x="8" y="22">{heading}</text>\n'
        f'<text class="status" x="8" y="42" aria-live="polite">{escape(summary)}</text>\n'
        f'<svg id="frames" y="{_TOP}" width="100%" height="{height - _TOP}" role="tree" aria-label="{heading}">\n'
        + "".join(_element(frame, root.total_ns) for frame in drawn)
        + f"</svg>\n{script}</svg>\n"
    )


def _tree(stacks: Stacks, name: str) -> _Frame:
    root = _Frame(name, 0)
    for names, spent_ns in sorted(stacks.items()):
        root.total_ns += spent_ns
        frame = root
        for inner in names:
            frame = frame.inner.setdefault(inner, _Frame(inner, frame.depth + 1))
            frame.total_ns += spent_ns
    return root


def _lay_out(root: _Frame) -> list[_Frame]:
    """Place every frame: outer ones before inner ones, the heaviest inside each first."""
    placed, stack = [], [root]
    while stack:
        frame = stack.pop()
        placed.append(frame)
        left_ns = frame.left_ns
        inner = sorted(frame.inner.values(), key=lambda child: (-child.total_ns, child.name))
        for child in inner:
            child.left_ns = left_ns
            left_ns += child.total_ns
        stack.extend(reversed(inner))
    return placed


def _short_label(name: str) -> str:
    """The most useful part comes first, as the rest may be cut off."""
    if python := _PYTHON.match(name):
        return f"{python['name']} {python['file'].rpartition('/')[2]}:{python['line']}"
    if built_in := _BUILT_IN.match(name):
        return f"{built_in['name']} (built-in)"
    return name.removeprefix("void ")


def _element(frame: _Frame, whole_ns: int) -> str:
    name = label(frame.name, _NAME_CHARACTERS)
    share = 100 * frame.total_ns / whole_ns
    tooltip = escape(f"{name}\n{duration(frame.total_ns / 1e3)}, {share:.2f} %")
    return (
        f'<svg class="{_colour(frame)}" x="{100 * frame.left_ns / whole_ns:.4f}%" width="{share:.4f}%" '
        f'y="{_ROW_HEIGHT * frame.depth}" height="{_ROW_HEIGHT - 1}" role="treeitem" aria-level="{frame.depth + 1}">'
        f'<title>{tooltip}</title><rect width="100%" height="100%"/>'
        f'<text x="3" y="12.5">{escape(_short_label(name))}</text></svg>\n'
    )


def _colour(frame: _Frame) -> str:
    """Python functions, torch's operators and everything else have a hue each; a name always has the same shade."""
    if not frame.depth:
        return "root"
    python = _PYTHON.match(frame.name) or _BUILT_IN.match(frame.name)
    hue = "python" if python else "operator" if _OPERATOR.match(frame.name) else "other"
    return f"{hue} s{zlib.crc32(frame.name.encode(errors='replace')) % 4}"
