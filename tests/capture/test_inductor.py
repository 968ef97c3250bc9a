"""The code that torch.compile generates for a stand-in GPU, and the op file written from it."""

import json
import subprocess
import sys

import pytest

from support.klab import klab_env

# In a process of its own: inductor remembers the first device it has seen.
PROGRAM = """
import json, sys, torch
from pathlib import Path
import kernellab as kl
from kernellab.capture.recorder import capture
from kernellab.capture.op_file import write_op_file
from kernellab.capture.inductor import generate_for_standin, generate_source
from kernellab.capture.standin_gpu import standin_gpu
from kernellab.declaration.targets import load, resolve

square = kl.ops.square
case = square.case({"dims": {"...": [64], "N": 256}, "dtype": "float32", "options": {}, "layout": "contiguous",
                    "device": "cuda"})
x = torch.empty(64, 256, device="meta")
generated = generate_for_standin(square["compile"].fn, [x], {}, standin_gpu("sm_80"), lambda launch: None)
file = Path(sys.argv[1])
file.write_text(write_op_file(square, case, generated, ran=False, interpreter_limit=64 * 256))
large = write_op_file(square, case, generated, ran=False, interpreter_limit=64 * 256 - 1)
exported = capture(load(resolve(str(file)))["square"]["triton-generated"], [x], arch="sm_80")
for_cpu = generate_source(square["compile"].fn, [torch.randn(8, 8)], {})
print(json.dumps({"source": generated.source, "for_cpu": for_cpu,
                  "archs": [launch.arch for launch in generated.launches], "ptx": generated.launches[0].code["ptx"],
                  "launches": [[launch.kernel, launch.grid] for launch in generated.launches],
                  "file": file.read_text(), "large_file": large,
                  "exported": [[launch.kernel, launch.grid] for launch in exported]}))
"""


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    file = tmp_path_factory.mktemp("export") / "mine.py"
    command = [sys.executable, "-c", PROGRAM, str(file)]
    process = subprocess.run(command, env=klab_env(), capture_output=True, text=True, timeout=300)
    assert process.returncode == 0, process.stderr
    return json.loads(process.stdout.splitlines()[-1])


def test_its_triton_kernels_are_compiled_for_the_stand_in_gpu(results):
    assert "@triton.jit" in results["source"]
    assert set(results["archs"]) == {"sm_80"}
    assert ".target sm_80" in results["ptx"]
    names = [kernel for kernel, _ in results["launches"]]
    assert names
    assert {name[:16] for name in names} == {"triton_poi_fused"}


def test_the_process_generates_cpp_for_the_cpu_afterwards(results):
    assert 'extern "C"' in results["for_cpu"]


def test_the_op_file_launches_the_same_kernel(results):
    assert results["exported"] == results["launches"][:1]


def test_the_op_file_explains_inductors_decisions(results):
    assert "# XBLOCK = " in results["file"]
    assert "configurations that inductor would time on a GPU" in results["file"]


def test_an_op_file_too_large_for_the_interpreter_says_that_it_needs_a_gpu(results):
    assert "needs a GPU" not in results["file"]
    assert "Checking and timing it needs a GPU" in results["large_file"]
