"""Liger's own kernels compute the shipped ops, forward and backward, in Triton's interpreter."""

import importlib.util
import json
import subprocess
import sys

import pytest

from support.klab import klab_env

SCRIPT = """
import json

from kernellab.interpreter.emulation import enable_interpreter

enable_interpreter()

from kernellab.checking.declared_case import CaseChecker
from kernellab.declaration.case import Case
from kernellab.declaration.passes import pass_of
from kernellab.declaration.targets import Target
from kernellab.interpreter.pretended_gpu import pretended_gpu
from kernellab.peers import load
from support.trying import CPU

CASES = {
    "softmax": ({"...": (3,), "N": 100}, {}),
    "swiglu": ({"...": (3,), "N": 100}, {}),
    "geglu": ({"...": (3,), "N": 100}, dict(approximate="tanh")),
    "layer_norm": ({"...": (3,), "N": 100}, dict(eps=1e-5, weight=True, bias=True)),
    "rms_norm": ({"...": (3,), "N": 100}, dict(eps=1e-6, weight=True)),
    "add_rms_norm": ({"...": (3,), "N": 100}, dict(eps=1e-6, weight=True)),
    "rope": ({"B": 2, "H": 4, "G": 2, "S": 3, "D": 16}, dict(interleaved=False)),
    "cross_entropy": ({"M": 3, "V": 100}, dict(reduction="mean", label_smoothing=0.0, ignore_index=-100)),
}
outcomes = {}
for name, (sizes, options) in CASES.items():
    with pretended_gpu():
        op = load(Target(name, module=f"kernellab.ops.{name}", op=name, peers=["liger"]))[name]
    for pass_name in ("forward", "backward"):
        case = Case(sizes, "bfloat16", options)
        checker = CaseChecker(op, case, seed=0, device=CPU, interpreted=True, pass_=pass_of(pass_name))
        outcome = checker.check(op["liger"])
        outcomes[f"{name} {pass_name}"] = outcome.status, outcome.reason
print(json.dumps(outcomes))
"""


@pytest.mark.skipif(importlib.util.find_spec("liger_kernel") is None, reason="liger-kernel is not installed")
def test_ligers_own_kernels_compute_the_shipped_ops():
    env = klab_env(PYTHONPATH=":".join(path for path in sys.path if path))
    done = subprocess.run([sys.executable, "-c", SCRIPT], env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    outcomes = json.loads(done.stdout.splitlines()[-1])
    assert len(outcomes) == 16
    assert {name: outcome for name, outcome in outcomes.items() if outcome[0] != "ok"} == {}
