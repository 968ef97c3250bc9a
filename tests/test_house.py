"""Imports point one way, and the parent stays light."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import SRC, klab_env

PACKAGE = SRC / "kernellab"
# Each room with the rooms it may import from. Modules of the top folder are rooms of their own.
PURE = {"intervals", "trust", "tried"}
GROUND = {"errors", "case", "arguments", "declare", "blame", "machine"}
TENSORS = GROUND | {"inputs", "compare", "memory", "passes"}
ALLOWED = {
    "errors": set(),
    "case": {"errors"},
    "arguments": {"errors", "case"},
    "declarable": {"errors", "case", "arguments"},
    "declare": {"errors", "case", "arguments", "declarable"},
    "blame": {"errors"},
    "machine": GROUND | {"launch"},  # the doctor tries a build
    "inputs": GROUND,
    "compare": set(),
    "verdict": PURE | {"explaining"},
    "intervals": set(),
    "memory": set(),
    "passes": GROUND | {"inputs"},
    "trust": {"intervals"},
    "tried": set(),
    "scaling": set(),
    "helpers": {"case", "compare"},
    "targets": GROUND,
    "catalogue": GROUND | {"targets"},
    "launch": GROUND | {"machinecode"},
    "code": GROUND | {"launch"},
    "machinecode": GROUND,
    "checking": TENSORS,
    "timing": GROUND | PURE | {"inputs", "launch", "memory", "traces"},
    "verify": TENSORS | {"checking", "tried", "declarable"},
    "ops": GROUND | {"launch", "ops"},
    "running": TENSORS
    | PURE
    | {"checking", "timing", "launch", "machinecode", "explaining", "targets", "running"}
    | {"collecting", "workloads", "traces", "profiling"},
    "explaining": {"errors", "machine", "kernelnames"},
    "kernelnames": set(),
    "traces": {"errors"},
    "profiling": {"errors", "traces", "kernelnames", "explaining"},
    "collecting": GROUND | {"collecting"},
    "workloads": GROUND | {"collecting", "workloads"},
    "profiled": GROUND | {"collecting", "traces", "profiling", "reporting"},
    "reporting": {
        "explaining",
        "traces",
        "profiling",
        "kernelnames",
        "errors",
        "case",
        "verdict",
        "scaling",
        "intervals",
        "machinecode",
        "reporting",
    },
    "validation": GROUND | {"running", "verdict", "validation"},
    "cli": GROUND
    | {
        "targets",
        "catalogue",
        "traces",
        "profiling",
        "machinecode",
        "running",
        "explaining",
        "reporting",
        "validation",
        "verdict",
        "cli",
    },
}


def room(module: str) -> str:
    return module.split(".")[1] if "." in module else ""


def imports_of(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return {name for name in found if name.startswith("kernellab.")}


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_point_one_way(path):
    own = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    if own in ("__init__", "__main__"):
        return
    seen = {room(name) for name in imports_of(path)} - {own, "__version__"}
    assert seen <= ALLOWED[own], f"{path.name} imports {seen - ALLOWED[own]}"


def test_the_parent_imports_neither_torch_nor_ops():
    code = (
        "import sys\nimport kernellab.cli.measure, kernellab.running.parent.runner, kernellab.reporting.terminal.results\n"
        "import kernellab.reporting.terminal.progress, kernellab.reporting.charts.files\n"
        "import kernellab.record.merge, kernellab.declaration.catalogue\n"
        "import kernellab.cli.device, kernellab.cli.waves, kernellab.running.parent.device\n"
        "import kernellab.reporting.terminal.device, kernellab.reporting.terminal.waves\n"
        "import kernellab.cli.explain, kernellab.reporting.terminal.explanation, kernellab.reporting.charts.roofline\n"
        "import kernellab.cli.inspect, kernellab.codeanalysis.files, kernellab.ptxwords.explain\n"
        "import kernellab.cli.inspect_op, kernellab.cli.inspect_diff, kernellab.running.parent.inspection\n"
        "import kernellab.cli.profile, kernellab.cli.profile_programs, kernellab.running.parent.profiling\n"
        "import kernellab.analysis.summary, kernellab.analysis.ranks, kernellab.reporting.pages.trace\n"
        "import kernellab.running.parent.nsight_compute, kernellab.reporting.profiles.counters, kernellab.cli.profile_counters\n"
        "import kernellab.reporting.profiles.recording, kernellab.reporting.profiles.scaling, kernellab.reporting.profiles.comparison\n"
        "assert not {'torch', 'triton', 'kernellab.ops'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env=klab_env())


def test_no_module_is_too_long_to_read():
    for path in PACKAGE.rglob("*"):
        if path.suffix in (".py", ".cu", ".cuh", ".cpp", ".hpp"):
            assert len(path.read_text().splitlines()) <= 500, path.name
