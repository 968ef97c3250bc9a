"""The text of a tuned table: a head that says what it was made for, and a section for each op.

A section begins with comments: when, where and with which versions the op was measured, and the record of it. Sections
of ops that are not tuned again are kept as they are.
"""

from __future__ import annotations

import json
import re
import sys
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kernellab.base.version import VERSION
from kernellab.library.rules import HEAD, LIMITS, PYTORCH
from kernellab.library.tuned import FORMAT, SWITCH
from kernellab.tuning.regions import TunedRule
from kernellab.tuning.winners import PASSES

_WIDTH = 118
_SECTION = re.compile(r"^# (\w+), measured ", re.MULTILINE)  # the first line of a section


@dataclass(frozen=True)
class Stamp:
    """Where, when and with what an op was measured."""

    architecture: str
    device: str  # the name of the CPU or of the GPU
    machine: str  # the same with its driver or its threads
    date: str
    versions: Mapping[str, str]
    run: str


@dataclass(frozen=True)
class Section:
    """The rules of one op, and what its comments say. `refused`: why implementations take no part."""

    op: str
    stamp: Stamp
    sizes: int
    dtypes: Sequence[str]
    rules: Sequence[TunedRule]
    refused: Mapping[str, str] = field(default_factory=dict)


def split_sections(text: str) -> dict[str, str]:
    """The sections of an existing table, by op."""
    starts = [match.start() for match in _SECTION.finditer(text)]
    parts = [text[start:end] for start, end in zip(starts, [*starts[1:], len(text)], strict=True)]
    return {match[1]: part for part in parts if (match := _SECTION.match(part))}


def head(stamp: Stamp) -> str:
    lines = [
        f"# Which implementation serves on {stamp.device}: measured by `klab tune`, which rewrites this file.",
        "# These rules come before the shipped ones, which decide where none of these applies.",
        f"# {SWITCH}=0 ignores this file, `klab tune --reset` removes it, docs/models.md describes the format.",
        "",
        f"[{HEAD}]",
        f"format = {FORMAT}",
        f"kernellab = {_quoted(VERSION)}",
        f"architecture = {_quoted(stamp.architecture)}",
        f"device = {_quoted(stamp.device)}",
    ]
    return "\n".join(lines) + "\n\n"


def join_sections(stamp: Stamp, sections: Mapping[str, str]) -> str:
    return head(stamp) + "\n\n".join(text.strip() for _, text in sorted(sections.items())) + "\n"


def section_text(section: Section) -> str:
    stamp = section.stamp
    versions = ", ".join(f"{name} {version}" for name, version in stamp.versions.items())
    facts = [
        f"{section.op}, measured {stamp.date} on {stamp.machine}; {versions}",
        f"record: {stamp.run}",
        f"{_count(section.sizes)} in {', '.join(section.dtypes)}"
        + ("" if section.rules else ": the shipped choices stay"),
        *(f"{impl} takes no part: {reason}" for impl, reason in section.refused.items()),
    ]
    comments = [line for fact in facts for line in _comment(fact)]
    return "\n\n".join(["\n".join(comments), *(_rule_text(section, rule) for rule in section.rules)]) + "\n"


def _comment(fact: str) -> list[str]:
    """A fact in lines of a comment. Reasons may come from an implementation: only printable text of one line."""
    text = " ".join("".join(c if c.isprintable() else " " for c in fact).split())
    return textwrap.wrap(text, _WIDTH, initial_indent="# ", subsequent_indent="#   ", break_on_hyphens=False)


def _rule_text(section: Section, tuned: TunedRule) -> str:
    rule = tuned.rule
    lines = [f"[[{section.op}]]", f"dtypes = {json.dumps(list(tuned.dtypes))}"]
    if rule.options:
        lines.append("options = { " + ", ".join(f"{k} = {_quoted(v)}" for k, v in rule.options) + " }")
    lines += [f"{key} = {limit}" for key in LIMITS if 0 < (limit := getattr(rule, key)) < sys.maxsize]
    lines += [f"forward = {_quoted(rule.forward)}", f"backward = {_quoted(rule.backward)}"]
    return "\n".join([*lines, f"basis = {_quoted(basis(section.stamp.date, tuned))}"])


def basis(date: str, tuned: TunedRule) -> str:
    """`measured 2026-11-16 10:02: forward 1.2 to 1.9, backward 2.1 times as fast as PyTorch, at 3 sizes`."""
    decisions = [cell.decision for cell in tuned.cells]
    other = "PyTorch" if tuned.rule.forward != PYTORCH else "the shipped choice"
    parts = []
    for name in PASSES:
        found = [d.over if tuned.rule.forward != PYTORCH else d.over_shipped for d in decisions]
        speeds = [speed[name] for speed in found if name in speed]
        if speeds and not (tuned.rule.forward != PYTORCH and getattr(tuned.rule, name) == PYTORCH):
            ends = dict.fromkeys(f"{end:.2g}" for end in (min(speeds), max(speeds)))
            parts.append(f"{name} {' to '.join(ends)}")
    reasons = {decision.reason for decision in decisions} - {"certainly faster"}
    why = f"; {'; '.join(sorted(reasons))}" if reasons else ""
    speed = f"{', '.join(parts)} times as fast as {other}, " if parts else ""
    return f"measured {date}: {speed}at {_count(len(decisions))}{why}"


def _count(sizes: int) -> str:
    return "1 size" if sizes == 1 else f"{sizes} sizes"


def _quoted(value: object) -> str:
    """A value as TOML writes it: JSON's strings, numbers and booleans are the same."""
    return json.dumps(value, ensure_ascii=False)
