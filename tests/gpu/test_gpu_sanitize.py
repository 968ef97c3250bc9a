"""`klab check --sanitize` on a GPU: each tool finds its bug with its line, and the shipped kernels are clean."""

import pytest

from kernellab.machine import tools
from support.klab import OPFILES

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(tools.compute_sanitizer() is None, reason="needs compute-sanitizer"),
]

UNSAFE = OPFILES / "gpu_unsafe.py"
KERNELS = OPFILES / "gpu_unsafe.cu"


def line_of(path, words):
    (number,) = [number for number, line in enumerate(path.read_text().splitlines(), 1) if words in line]
    return number


def sanitize(klab, target, impls, tools, *more):
    """How klab ended, and the outcome of each implementation under each tool."""
    ran = klab("check", target, "--impl", impls, "--declared", "--sanitize", tools, *more, "--json", timeout=900)
    assert ran.code in (0, 1), ran.err
    outcomes = ran.record["sanitized"]
    assert all(outcome["cases"] >= 5 for outcome in outcomes), outcomes
    return ran, {(outcome["impl"], outcome["tool"]): outcome for outcome in outcomes}


def test_memcheck_finds_a_triton_kernel_that_reads_beyond_the_end(klab):
    ran, outcomes = sanitize(klab, UNSAFE, "triton-reads-beyond,triton-masked", "memcheck")
    assert ran.code == 1
    bad, good = outcomes["triton-reads-beyond", "memcheck"], outcomes["triton-masked", "memcheck"]
    assert (bad["status"], good["status"]) == ("wrong", "ok"), (bad, good)
    (finding,) = [f for f in bad["findings"] if f["own"]]
    assert finding["kind"] == "invalid read"
    assert "_read_beyond" in finding["kernel"]
    assert finding["file"].endswith("gpu_unsafe.py")
    assert finding["line"] == line_of(UNSAFE, "# not masked")
    assert finding["trial"]
    assert "gpu_unsafe.py:" in bad["reason"]
    assert good["cases"] > bad["planned"] // 2


def test_racecheck_finds_a_missing_barrier(klab):
    ran, outcomes = sanitize(klab, UNSAFE, "cuda-races,cuda-staged", "racecheck")
    bad, good = outcomes["cuda-races", "racecheck"], outcomes["cuda-staged", "racecheck"]
    assert (ran.code, bad["status"], good["status"]) == (1, "wrong", "ok"), (bad, good)
    (finding,) = [f for f in bad["findings"] if f["own"]]
    write, read = line_of(KERNELS, "// the write"), line_of(KERNELS, "// the read")
    assert finding["kind"] == "race"
    assert finding["file"].endswith("gpu_unsafe.cu")
    assert finding["line"] in (write, read)
    assert f"gpu_unsafe.cu:{write}" in finding["detail"]
    assert f"gpu_unsafe.cu:{read}" in finding["detail"]


def test_initcheck_finds_a_read_of_memory_that_was_never_written(klab):
    _, outcomes = sanitize(klab, UNSAFE, "cuda-unwritten,cuda-staged", "initcheck", "--quick")
    bad, good = outcomes["cuda-unwritten", "initcheck"], outcomes["cuda-staged", "initcheck"]
    assert (bad["status"], good["status"]) == ("wrong", "ok"), (bad, good)
    (finding,) = [f for f in bad["findings"] if f["own"]]
    assert finding["kind"] == "uninitialised read"
    assert finding["line"] == line_of(KERNELS, "// never written")


def test_the_shipped_gelu_is_clean_under_every_tool(klab):
    ran, outcomes = sanitize(klab, "gelu", "triton,cuda", "memcheck,racecheck,initcheck,synccheck")
    assert ran.code == 0, ran.err
    assert set(outcomes) == {(impl, tool) for impl in ("triton", "cuda") for tool in tools.SANITIZERS}
    for key, outcome in outcomes.items():
        assert (outcome["status"], outcome["findings"], outcome["exit"]) == ("ok", [], 0), (key, outcome)
        assert outcome["cases"] >= 20


def test_without_impl_only_implementations_with_kernels_of_their_own_are_run(klab):
    ran = klab("check", "softmax", "--declared", "--quick", "--sanitize", "synccheck", timeout=900)
    assert ran.code == 0, ran.out + ran.err
    table = ran.out.partition("softmax · under compute-sanitizer")[2]
    assert "triton" in table
    assert "cuda" in table
    assert "manual" not in table
    assert "nothing found." in ran.out
