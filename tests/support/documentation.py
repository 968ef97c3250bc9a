"""Lists what users can name in kernellab, and what the documentation leaves out.

The functions take folders, so that a copy of the package can be checked too.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from support.klab import klab_env

_INVENTORY = """
import json
from kernellab.cli import verb_parser
from kernellab.cli.discovery import find_verbs
from kernellab.declaration.targets import shipped_names
from kernellab.explaining.rulebook import all_rules
from kernellab.timing.timers import TIMERS
verbs = {name: verb_parser(verb).option_names() for name, verb in find_verbs().items()}
names = {"ops": shipped_names(), "rules": list(all_rules()), "timers": list(TIMERS)}
print(json.dumps({"verbs": verbs, **names}))
"""


@dataclass(frozen=True)
class Inventory:
    verbs: dict[str, list[str]]  # each with its long options, without dashes
    ops: list[str]
    rules: list[str]
    timers: list[str]


def take_inventory(src: Path) -> Inventory:
    """The inventory of the package in a source folder, by its own discovery."""
    env = klab_env(PYTHONPATH=str(src))
    done = subprocess.run([sys.executable, "-c", _INVENTORY], env=env, capture_output=True, text=True, check=True)
    return Inventory(**json.loads(done.stdout))


def undocumented(inventory: Inventory, root: Path) -> list[str]:
    """What the pages below `root` should mention and do not, one line each."""
    commands = (root / "docs" / "commands.md").read_text()
    missing = []
    for verb, options in inventory.verbs.items():
        text = _documentation_of(verb, commands)
        if not re.search(rf"`klab {verb}\b", text):
            missing.append(f"verb {verb}: a row in the first table of docs/commands.md")
        missing += [
            f"option --{option} of {verb}: its row there, or a section `Options of {verb}`"
            for option in options
            if not re.search(rf"--{option}(?![\w-])", text)
        ]
    rules = documented_rules(root)
    missing += [
        f"rule {rule}: its row in docs/explain.md (python -m kernellab.explaining.rulebook docs/explain.md)"
        for rule in inventory.rules
        if rule not in rules
    ]
    timers = documented_timers(root)
    missing += [
        f"timer {timer}: a row in the table of docs/timing.md" for timer in inventory.timers if timer not in timers
    ]
    readme = (root / "README.md").read_text()
    missing += [f"op {op}: in README.md, under Shipped ops" for op in inventory.ops if f"`{op}`" not in readme]
    return missing


def documented_rules(root: Path) -> set[str]:
    """The rules in the table of docs/explain.md."""
    section = _sections((root / "docs" / "explain.md").read_text())["The rules"]
    return {cell.strip("`") for cell in _first_cells(section)}


def documented_timers(root: Path) -> set[str]:
    """The timers in the table of docs/timing.md."""
    section, *_ = _sections((root / "docs" / "timing.md").read_text())["Timers"].split("\n### ")
    return set(re.findall(r"^`(\w+)`", "\n".join(_first_cells(section)), re.MULTILINE))


def documented_verbs(root: Path) -> set[str]:
    """The verbs in the first table of docs/commands.md."""
    first, *_ = (root / "docs" / "commands.md").read_text().split("\n## ")
    return set(re.findall(r"`klab ([\w-]+)", "\n".join(_first_cells(first))))


def _documentation_of(verb: str, commands: str) -> str:
    """The parts of docs/commands.md about a verb: its rows of the first table, and sections of it or of every verb."""
    first, *_ = commands.split("\n## ")
    rows = [line for line in first.splitlines() if re.match(rf"\| `klab {verb}\b", line)]
    sections = [
        text
        for title, text in _sections(commands).items()
        if title.startswith("Options of") and re.search(rf"\b({verb}|every verb)\b", title)
    ]
    return "\n".join([*rows, *sections])


def _sections(page: str) -> dict[str, str]:
    return dict(part.split("\n", 1) for part in page.split("\n## ")[1:])


def _first_cells(text: str) -> list[str]:
    """The first cells of a section's tables, without their heads."""
    cells = [match[1].strip() for match in re.finditer(r"^\| (.*?)(?<!\\) \|", text, re.MULTILINE)]
    return [cell for cell in cells if cell not in ("rule", "verb", "option", "timer")]
