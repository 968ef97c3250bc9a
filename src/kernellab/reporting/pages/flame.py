"""Flame graphs: stacks with the nanoseconds spent in each, as a picture, for speedscope, and as text.

The picture is one SVG file that needs nothing else. Its widths are shares of the window's, so that it can be read on a
narrow screen; its script zooms and searches, and without it the picture is the same, still.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from html import escape
from typing import Any

from kernellab.reporting.pages.html import part, printable
from kernellab.reporting.text.numbers import count, duration

Stacks = Mapping[tuple[str, ...], int]

MOST_FRAMES = 15_000  # drawn; a browser draws these at once
_SHOWN = 200  # characters of a name in the picture
_ROW, _TOP = 18, 84

_PYTHON = re.compile(r"^(?P<file>.*)\((?P<line>\d+)\): (?P<name>.*)$")
_BUILT_IN = re.compile(r"^<built-in (method|function) (?P<name>\w+)")
_OPERATOR = re.compile(r"^[a-z_][\w.]*::[\w.: ]+$|^\w+Backward\d*$")


def text(stacks: Stacks) -> str:
    """Collapsed stacks: a line each, frames divided by semicolons, then nanoseconds. Heaviest first."""
    lines: dict[str, int] = {}
    for frames, spent in stacks.items():
        line = ";".join(printable(name).replace(";", ":") for name in frames)
        lines[line] = lines.get(line, 0) + spent
    heaviest = sorted(lines.items(), key=lambda item: (-item[1], item[0]))
    return "".join(f"{line} {spent}\n" for line, spent in heaviest)


def speedscope(title: str, profiles: Mapping[str, Stacks]) -> str:
    """A file that speedscope opens: a profile for each name, such as GPU and CPU time."""
    frames: dict[str, int] = {}
    listed: list[dict[str, Any]] = []
    for name, stacks in profiles.items():
        samples = [[frames.setdefault(printable(one), len(frames)) for one in stack] for stack in stacks]
        weights = list(stacks.values())
        listed.append(
            {"type": "sampled", "name": printable(name), "unit": "nanoseconds", "startValue": 0}
            | {"endValue": sum(weights), "samples": samples, "weights": weights}
        )
    document = {
        "$schema": "https://www.speedscope.app/file-format-schema.json",
        "name": printable(title),
        "exporter": "kernellab",
        "activeProfileIndex": 0,
        "shared": {"frames": [_frame(name) for name in frames]},
        "profiles": listed,
    }
    return json.dumps(document)


def _frame(name: str) -> dict[str, Any]:
    python = _PYTHON.match(name)
    if python is None:
        return {"name": name}
    return {"name": python["name"] or name, "file": python["file"], "line": int(python["line"])}


@dataclass
class _Node:
    name: str
    depth: int
    left: float = 0.0  # nanoseconds before it
    spent: int = 0  # with all inside it
    inside: dict[str, _Node] = field(default_factory=dict)


def svg(title: str, stacks: Stacks, whose: str = "time") -> str:
    """The picture; `whose` says what the widths are: GPU time, CPU time."""
    root = _tree(stacks, f"all {whose}")
    nodes = _laid_out(root)
    drawn = [node for node in nodes if node.spent > 0]
    if len(drawn) > MOST_FRAMES:
        least = sorted((node.spent for node in drawn), reverse=True)[MOST_FRAMES - 1]
        drawn = [node for node in drawn if node.spent >= least][:MOST_FRAMES]
    deepest = max(node.depth for node in drawn) if drawn else 0
    said = f"{duration(root.spent / 1e3)} of {whose} in {count(len(stacks), 'stack')}"
    if len(drawn) < len(nodes):
        said += f"; {count(len(nodes) - len(drawn), 'thinnest frame')} not drawn"
    if not drawn:
        said = f"no {whose} was recorded"
    height = _TOP + _ROW * (deepest + 1) + 8
    head = escape(printable(title, _SHOWN))
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f'<svg xmlns="http://www.w3.org/2000/svg" width="100%" height="{height}" id="flame">\n'
        f"<title>{head}</title>\n<style>{part('flame.css')}</style>\n"
        '<rect class="paper" width="100%" height="100%"/>\n'
        f'<text class="head" x="8" y="22">{head}</text>\n'
        f'<text class="said" x="8" y="42" aria-live="polite">{escape(said)}</text>\n'
        f'<svg id="frames" y="{_TOP}" width="100%" height="{height - _TOP}" role="tree" aria-label="{head}">\n'
        + "".join(_drawn(node, root.spent) for node in drawn)
        + f"</svg>\n<script><![CDATA[\n{part('flame.js')}]]></script>\n</svg>\n"
    )


def _tree(stacks: Stacks, name: str) -> _Node:
    root = _Node(name, 0)
    for frames, spent in sorted(stacks.items()):
        root.spent += spent
        node = root
        for frame in frames:
            node = node.inside.setdefault(frame, _Node(frame, node.depth + 1))
            node.spent += spent
    return root


def _laid_out(root: _Node) -> list[_Node]:
    """Every node, outer ones before inner ones, the heaviest of those inside one first."""
    found, left = [], [root]
    while left:
        node = left.pop()
        found.append(node)
        at = node.left
        inside = sorted(node.inside.values(), key=lambda one: (-one.spent, one.name))
        for one in inside:
            one.left = at
            at += one.spent
        left.extend(reversed(inside))
    return found


def _label(name: str) -> str:
    """What a person looks for comes first, for the rest may be cut."""
    if python := _PYTHON.match(name):
        return f"{python['name']} {python['file'].rpartition('/')[2]}:{python['line']}"
    if built_in := _BUILT_IN.match(name):
        return f"{built_in['name']} (built-in)"
    return name.removeprefix("void ")


def _drawn(node: _Node, total: int) -> str:
    name = printable(node.name, _SHOWN)
    share = 100 * node.spent / total
    about = escape(f"{name}\n{duration(node.spent / 1e3)}, {share:.2f} %")
    return (
        f'<svg class="{_colour(node)}" x="{100 * node.left / total:.4f}%" width="{share:.4f}%" '
        f'y="{_ROW * node.depth}" height="{_ROW - 1}" role="treeitem" aria-level="{node.depth + 1}">'
        f'<title>{about}</title><rect width="100%" height="100%"/>'
        f'<text x="3" y="12.5">{escape(_label(name))}</text></svg>\n'
    )


def _colour(node: _Node) -> str:
    """Python's frames, torch's operators and all else have a hue each; a name always has the same shade of it."""
    if not node.depth:
        return "root"
    python = _PYTHON.match(node.name) or _BUILT_IN.match(node.name)
    hue = "python" if python else "operator" if _OPERATOR.match(node.name) else "other"
    return f"{hue} s{zlib.crc32(node.name.encode(errors='replace')) % 4}"
