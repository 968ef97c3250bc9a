"""`klab list`: what can run here, read from source."""

import json
import subprocess
import sys

from kernellab.declaration.targets import shipped_names
from support.klab import klab_env


def test_the_list_says_what_can_run_here(klab):
    seen = klab("list")
    assert seen.code == 0
    for line in ("gelu  ", "  triton       checked", "  cuda-inline  ", "  cpp          checked and timed"):
        assert line in seen.out
    ops = {entry["op"]: entry for entry in json.loads(klab("list", "--json").out)}
    assert list(ops) == shipped_names()
    assert "manual" not in ops["matmul"]["impls"]


def test_listing_executes_nothing(tmp_path):
    code = (
        "import sys\nfrom kernellab.cli import run\n"
        "assert run(['list']) == 0\nassert 'torch' not in sys.modules and 'kernellab.ops' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env=klab_env(), cwd=tmp_path, capture_output=True)


def test_a_terminal_without_the_characters_still_gets_its_listing(klab):
    seen = klab("list", PYTHONIOENCODING="ascii")
    assert (seen.code, "gelu" in seen.out) == (0, True)
