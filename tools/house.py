"""The packages of kernellab and how they import each other, read from the source.

    python tools/house.py            rewrites the drawing and the list of packages in docs/house.md
    python tools/house.py --graph    prints what each package imports

tests/house uses the same functions: imports must be acyclic, and docs/house.md must not be stale.
"""

from __future__ import annotations

import ast
import re
import sys
import textwrap
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SRC = ROOT / "src"
PACKAGE = SRC / "kernellab"
PAGE = ROOT / "docs" / "house.md"
# Op files use kernellab as any user's file does: through its public API.
OP_FILES = ("ops/", "doctor/aa_op.py")
_WIDTH = 116


def module_name(path: Path) -> str:
    parts = path.relative_to(SRC).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def modules() -> dict[str, Path]:
    """Every module of the package by its name."""
    return {module_name(path): path for path in sorted(PACKAGE.rglob("*.py"))}


def package_of(module: str) -> str:
    """The folder of a module, as in `running/parent`; all ops are one package. The public API is `kernellab`."""
    folder = modules()[module].parent.relative_to(SRC).parts
    if len(folder) == 1:
        return "kernellab"
    return "/".join(folder[1:2] if folder[1] == "ops" else folder[1:])


@cache
def imports_of(module: str) -> frozenset[str]:
    """The modules of kernellab that a module imports, inside functions too."""
    imported = set()
    for node in ast.walk(ast.parse(modules()[module].read_text())):
        if isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            imported |= {name if name in modules() else node.module for name in names}
    if str(modules()[module].relative_to(PACKAGE)).startswith(OP_FILES):
        imported.discard("kernellab")
    return frozenset((imported & modules().keys()) - {module})


@cache
def module_graph() -> dict[str, set[str]]:
    # A package's own __init__ may name its modules: that is no import of the package by them.
    return {module: {name for name in imports_of(module) if not name.startswith(module + ".")} for module in modules()}


@cache
def package_graph() -> dict[str, set[str]]:
    """What each package imports from other packages."""
    graph: dict[str, set[str]] = {package_of(module): set() for module in modules()}
    for module in modules():
        graph[package_of(module)] |= {package_of(name) for name in imports_of(module)} - {package_of(module)}
    # A folder that holds only packages is no package itself.
    parents = {name.rpartition("/")[0] for name in graph}
    empty = {name for name in parents & graph.keys() if len(list((PACKAGE / name).glob("*.py"))) == 1}
    return {name: imported - empty for name, imported in graph.items() if name not in empty}


def layers() -> list[list[str]]:
    """Packages in layers, the lowest first: a package imports only from layers below its own."""
    graph = package_graph()
    level: dict[str, int] = {}

    def level_of(package: str) -> int:
        if package not in level:
            level[package] = 1 + max((level_of(name) for name in graph[package]), default=-1)
        return level[package]

    for package in graph:
        level_of(package)
    return [sorted(p for p in graph if level[p] == number) for number in range(max(level.values()) + 1)]


def purpose(package: str) -> str:
    """The first sentence of a package's docstring."""
    folder = PACKAGE if package == "kernellab" else PACKAGE / package
    text = ast.get_docstring(ast.parse((folder / "__init__.py").read_text())) or ""
    return " ".join(text.split("\n\n")[0].split()) if text else ""


def first_sentence(text: str) -> str:
    return re.split(r"(?<=\.) (?=[A-Z`])", text)[0]


def drawing() -> str:
    """The layers as text, the highest first."""
    lines = []
    for layer in reversed(layers()):
        words = textwrap.wrap("  ".join(layer), _WIDTH, break_on_hyphens=False, break_long_words=False)
        lines += [f"{'↓' if place == 0 else ' '} {line}" for place, line in enumerate(words)]
    return "\n".join(["```", *lines, "```"])


def package_list() -> str:
    packages = sorted(package for package in package_graph() if package != "kernellab")
    rows = [f"| `{package}/` | {first_sentence(purpose(package))} |" for package in packages]
    return "\n".join(["| package | |", "|---|---|", *rows])


def render(page: str) -> str:
    """The page with its drawing and its list as the source has them today."""
    for name, text in (("drawing", drawing()), ("packages", package_list())):
        page = re.sub(
            rf"(<!-- {name} -->\n).*?(<!-- end -->)", lambda m, t=text: f"{m[1]}{t}\n{m[2]}", page, flags=re.DOTALL
        )
    return page


if __name__ == "__main__":
    if "--graph" in sys.argv:
        for name, imported in sorted(package_graph().items()):
            print(f"{name}: {', '.join(sorted(imported))}")
    else:
        PAGE.write_text(render(PAGE.read_text()))
