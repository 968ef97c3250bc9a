"""`klab check --sanitize` on a GPU: what each tool finds, with its line, and the shipped kernels clean."""

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
    (found,) = [number for number, line in enumerate(path.read_text().splitlines(), 1) if words in line]
    return found


def sanitized(klab, target, impls, asked):
    """What each way did under each tool, by both their names."""
    seen = klab("check", target, "--impl", impls, "--declared", "--sanitize", asked, "--json", timeout=900)
    assert seen.code in (0, 1), seen.err
    found = seen.record["sanitized"]
    assert all(one["cases"] >= 5 for one in found), found
    return seen, {(one["impl"], one["tool"]): one for one in found}


def test_memcheck_finds_a_triton_kernel_that_reads_beyond_the_end(klab):
    seen, found = sanitized(klab, UNSAFE, "triton-reads-beyond,triton-masked", "memcheck")
    assert seen.code == 1
    bad, good = found["triton-reads-beyond", "memcheck"], found["triton-masked", "memcheck"]
    assert (bad["status"], good["status"]) == ("wrong", "ok"), (bad, good)
    (one,) = [f for f in bad["findings"] if f["own"]]
    assert one["kind"] == "invalid read"
    assert "_read_beyond" in one["kernel"]
    assert one["file"].endswith("gpu_unsafe.py")
    assert one["line"] == line_of(UNSAFE, "# not masked")
    assert one["trial"]
    assert "gpu_unsafe.py:" in bad["reason"]
    assert good["cases"] > bad["planned"] // 2


def test_racecheck_finds_a_missing_barrier(klab):
    seen, found = sanitized(klab, UNSAFE, "cuda-races,cuda-staged", "racecheck")
    bad, good = found["cuda-races", "racecheck"], found["cuda-staged", "racecheck"]
    assert (seen.code, bad["status"], good["status"]) == (1, "wrong", "ok"), (bad, good)
    (one,) = [f for f in bad["findings"] if f["own"]]
    write, read = line_of(KERNELS, "// the write"), line_of(KERNELS, "// the read")
    assert one["kind"] == "race"
    assert one["file"].endswith("gpu_unsafe.cu")
    assert one["line"] in (write, read)
    assert f"gpu_unsafe.cu:{write}" in one["detail"]
    assert f"gpu_unsafe.cu:{read}" in one["detail"]


def test_initcheck_finds_a_read_of_what_nothing_wrote(klab):
    _, found = sanitized(klab, UNSAFE, "cuda-unwritten,cuda-staged", "initcheck")
    bad, good = found["cuda-unwritten", "initcheck"], found["cuda-staged", "initcheck"]
    assert (bad["status"], good["status"]) == ("wrong", "ok"), (bad, good)
    (one,) = [f for f in bad["findings"] if f["own"]]
    assert one["kind"] == "uninitialised read"
    assert one["line"] == line_of(KERNELS, "// never written")


def test_the_shipped_gelu_is_clean_under_every_tool(klab):
    seen, found = sanitized(klab, "gelu", "triton,cuda", "memcheck,racecheck,initcheck,synccheck")
    assert seen.code == 0, seen.err
    assert set(found) == {(impl, tool) for impl in ("triton", "cuda") for tool in tools.SANITIZERS}
    for key, one in found.items():
        assert (one["status"], one["findings"], one["exit"]) == ("ok", [], 0), (key, one)
        assert one["cases"] >= 20


def test_without_a_choice_only_ways_with_kernels_of_their_own(klab):
    seen = klab("check", "square", "--declared", "--quick", "--sanitize", "synccheck", timeout=900)
    assert seen.code == 0, seen.out + seen.err
    table = seen.out.partition("square · under compute-sanitizer")[2]
    assert "triton" in table
    assert "cuda" in table
    assert "manual" not in table
    assert "nothing found." in seen.out
