"""The steps from textbook kernels to shipped ones: what each compiles to, what it refuses, which mistakes are found.

On a GPU tests/gpu/test_gpu_ladder.py checks all of them.
"""

import os
import subprocess
import sys

import pytest

import kernellab as kl
from kernellab.capture.meta_inputs import meta_inputs
from kernellab.capture.recorder import record_launches
from kernellab.codeanalysis.facts import facts_from_cubin
from kernellab.declaration.case import Case
from support.klab import HERE, SRC
from support.ops import options_of

# The bytes of a load in float32, and the number of loops that load, each of which reads the row.
STEPS = {
    ("gelu", "cuda-element"): (4, 0),
    ("gelu", "cuda-exp-tanh"): (4, 0),
    ("gelu", "cuda-sigmoid"): (4, 0),
    ("gelu", "cuda-vector"): (16, 0),
    ("gelu", "cuda-vector-4"): (16, 0),
    ("softmax", "cuda-thread"): (4, 3),
    ("softmax", "cuda-block"): (4, 3),
    ("softmax", "cuda-vector"): (16, 3),
    ("softmax", "cuda-online"): (16, 2),
    ("softmax", "cuda-registers"): (16, 0),
    ("softmax", "cuda-cluster"): (16, 0),
    ("layer_norm", "cuda-block"): (4, 3),
    ("layer_norm", "cuda-squares"): (4, 2),
    ("layer_norm", "cuda-welford"): (4, 2),
    ("layer_norm", "cuda-vector"): (16, 2),
    ("layer_norm", "cuda-shared"): (16, 1),
    ("layer_norm", "cuda-registers"): (16, 0),
}


def case(op, cols, rows=64, dtype="float32"):
    return Case({"...": (rows,), "N": cols}, dtype, options_of(op)[0], device="cuda")


def launched(name, impl, cols=4096):
    """The launch of a call, and the facts of its kernel for sm_90."""
    op = getattr(kl.ops, name)
    at = case(op, cols)
    with record_launches("sm_90") as launches:
        op[impl](*meta_inputs(op, at).values(), **op.call_options(at))
    (launch,) = launches
    (facts,) = facts_from_cubin(launch.cubin, launch.code["ptx"])
    return launch, facts


def test_every_step_in_cuda_is_listed_here():
    ops = [getattr(kl.ops, name) for name in ("gelu", "softmax", "layer_norm")]
    studies = [(op.name, i.name) for op in ops for i in op.impls.values() if i.study and i.kind.name == "cuda"]
    assert studies == list(STEPS)


@pytest.mark.parametrize(("name", "impl"), list(STEPS))
def test_a_step_compiles_to_the_accesses_and_reads_that_it_is_about(name, impl):
    bytes_per_load, loops = STEPS[name, impl]
    _, facts = launched(name, impl)
    assert {access.bytes for access in facts.accesses if access.kind == "global_load"} == {bytes_per_load}
    assert len({loop.statement for loop in facts.loops if "global_load" in loop.instructions}) == loops
    assert (facts.spill_bytes, facts.stack_bytes) == (0, 0)


def test_a_thread_of_the_fourfold_step_loads_four_times_before_it_computes():
    (loads,) = (a.count for a in launched("gelu", "cuda-vector-4")[1].accesses if a.kind == "global_load")
    assert loads == 4


def test_a_row_in_shared_memory_takes_its_bytes_and_a_cluster_eight_blocks():
    assert launched("layer_norm", "cuda-shared", cols=16384)[0].shared_bytes == 4 * 16384
    assert launched("softmax", "cuda-cluster", cols=65536)[0].cluster == (8, 1, 1)


@pytest.mark.parametrize(
    ("name", "impl", "arch", "largest", "reason"),
    [
        ("softmax", "cuda-registers", "sm_90", 16384, "registers of a block"),
        ("softmax", "cuda-cluster", "sm_90", 131072, "registers of a cluster"),
        ("softmax", "triton-row", "sm_90", 65536, "one program"),
        ("layer_norm", "cuda-shared", "sm_90", 57856, "shared memory of a block"),
        ("layer_norm", "cuda-registers", "sm_80", 16384, "registers of a block"),
    ],
)
def test_a_step_that_holds_the_row_refuses_one_that_does_not_fit(name, impl, arch, largest, reason):
    op = getattr(kl.ops, name)
    with record_launches(arch):
        assert op[impl].refusal(case(op, largest)) is None
        assert reason in op[impl].refusal(case(op, largest + 1))


def test_a_gpu_without_clusters_is_refused():
    with record_launches("sm_80"):
        assert "clusters" in kl.ops.softmax["cuda-cluster"].refusal(case(kl.ops.softmax, 1024))


def test_steps_refuse_what_they_do_not_compute():
    gelu, layer_norm = kl.ops.gelu, kl.ops.layer_norm
    at = case(gelu, 64)
    assert "tanh form" in gelu["cuda-element"].refusal(at.with_(options={"approximate": "none"}))
    assert "contiguous" in gelu["cuda-element"].refusal(at.with_(layout="transposed"))
    assert "float64" in gelu["cuda-element"].refusal(at.with_(dtype="float64"))
    at = case(layer_norm, 64)
    assert "weight" in layer_norm["cuda-block"].refusal(at.with_(options={**at.options, "weight": True}))
    assert "rows" in layer_norm["cuda-block"].refusal(case(layer_norm, 1, rows=1 << 31))


def test_inspecting_shows_supports_the_gpu_that_is_asked_about(klab):
    which = ("--impl", "cuda-cluster", "--shape", "8x4096", "--dtype", "float32", "--arch", "sm_90")
    seen = klab("inspect", "softmax", *which, "--json").record
    assert ([kernel["arch"] for kernel in seen["kernels"]], seen["others"]) == (["sm_90"], [])


def test_the_battery_finds_what_is_wrong_on_purpose(klab):
    which = ("--impl", "triton-exp-tanh", "--dtype", "float32", "--device", "cpu", "--quick")
    seen = klab("check", "gelu", *which, "--json")
    (result,), (battery,) = seen.record["results"], seen.record["batteries"]
    assert seen.code == 1
    assert result["derived"]["at_case"]["status"] == "ok"  # at the declared case it cannot be seen
    assert result["check"]["flaw"] == kl.ops.gelu["triton-exp-tanh"].flaw
    assert {failure["kind"] for failure in battery["failures"]} <= {"values", "sizes", "combinations"}
    assert any("x moderately large" in failure["label"] for failure in battery["failures"])


CANCELLATION = """
import torch
from kernellab.interpreter.emulation import enable_interpreter
enable_interpreter()
import kernellab as kl
from kernellab.accuracy.errors import measure

op = kl.ops.layer_norm
x = torch.randn(4, 1000, generator=torch.Generator().manual_seed(1))
for shift in (0.0, 1000.0):
    oracle = op.reference((x + shift).double())
    results = [op[impl](x + shift) for impl in ("torch", "triton-row", "triton-squares")]
    print(*(measure(y, oracle, rowwise=True).max for y in results))
"""


def test_a_variance_by_squares_cancels_where_the_mean_is_large():
    env = {**os.environ, "PYTHONPATH": f"{SRC}{os.pathsep}{HERE}"}
    command = [sys.executable, "-W", "ignore", "-c", CANCELLATION]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=300)
    around_0, around_1000 = ([float(error) for error in line.split()] for line in done.stdout.splitlines())
    assert max(around_0) < 2 * around_0[0] + 4
    own, row, squares = around_1000
    assert row < 2 * own + 4
    assert squares > 100 * own
