"""Studies: implementations that run only when a request names them, here of square's launch parameters."""

import json

import pytest
import torch

import kernellab as kl
from kernellab.base.errors import UserError
from kernellab.declaration.case_request import CaseRequest
from kernellab.running.worker.describe import describe

STUDIES = {"triton-pow2", "triton-w4", "triton-w8", "triton-w16", "triton-1024", "triton-1024-once"}


def test_only_the_unlooped_block_is_wrong_and_only_beyond_1024_columns(klab):
    seen = klab(
        *("check", "square", "--impl", "triton*", "--shape", "2x3x1", "--N", "1,1000,1024,1536,5000"),
        *("--dtype", "float32,bfloat16", "--device", "cpu", "--json"),
    )
    assert seen.code == 1, seen.err
    results = seen.record["results"]
    assert len(results) == 5 * 2 * 7
    for result in results:
        wrong = result["impl"] == "triton-1024-once" and result["case"]["dims"]["N"] > 1024
        assert result["derived"]["status"] == ("wrong" if wrong else "ok"), result


def test_a_wrong_implementation_is_not_timed(klab):
    seen = klab(
        *("bench", "square", "--impl", "torch,triton-1024-once", "--shape", "4x1536", "--device", "cpu"),
        *("--quick", "--json"),
    )
    wrong = seen.result("triton-1024-once")
    assert (wrong["derived"]["status"], wrong["times"]) == ("wrong", [])
    assert seen.result("torch")["derived"]["time"]["median_us"] > 0


def test_studies_run_only_when_a_request_names_them():
    assert set(kl.ops.square.impls) >= STUDIES
    assert not STUDIES & {impl.name for impl in kl.ops.square.select_impls([])}
    assert [i.name for i in kl.ops.square.select_impls(["triton-w*", "torch"])] == [
        *("torch", "triton-w4", "triton-w8", "triton-w16"),
    ]
    description = describe(kl.ops.square, CaseRequest(shapes=[(8, 8)]), torch.device("cpu"), [])
    assert not STUDIES & {impl["name"] for impl in description.impls}


def test_a_pattern_that_matches_nothing_is_refused(klab):
    seen = klab("check", "square", "--impl", "torch,nothing-*", "--shape", "8", "--device", "cpu")
    assert (seen.code, "no implementation" in seen.err) == (2, True)


def test_the_list_marks_studies_and_says_what_is_wrong_on_purpose(klab):
    text = klab("list").out.partition("\nsquare ")[2].partition("\n\n")[0]
    lines = [line.strip() for line in text.splitlines()]
    assert [line.split()[0] for line in lines if "a study" in line] == [
        *("triton-pow2", "triton-w4", "triton-w8", "triton-w16", "triton-1024", "triton-1024-once"),
    ]
    assert [line.split()[0] for line in lines if "wrong on purpose: a block of 1024" in line] == ["triton-1024-once"]
    square = next(e for e in json.loads(klab("list", "--json").out) if e["op"] == "square")
    assert set(square["studies"]) == STUDIES
    assert list(square["flaws"]) == ["triton-1024-once"]


def test_what_is_wrong_on_purpose_is_a_study():
    @kl.op
    def twice(x):
        return 2 * x

    with pytest.raises(UserError, match=r"wrong on purpose.*add study=True"):
        twice.impl("thrice", flaw="multiplies by 3")


def test_the_check_says_that_a_mistake_is_on_purpose_and_where_it_does_not_show(klab):
    flaw = kl.ops.square["triton-1024-once"].flaw
    seen = klab("check", "square", "--impl", "triton-1024-once", "--device", "cpu", "--shape", "4x512,8x1536")
    hidden, found = seen.out.split("square · 8×1536")
    assert f"note: wrong on purpose: {flaw}; nothing that was tried here shows it\n" in hidden
    assert f"note: wrong on purpose: {flaw}\n" in found
    assert seen.code == 1


def test_a_row_too_long_for_one_block_is_refused_with_a_reason():
    case = next(iter(kl.ops.square.expand(CaseRequest(shapes=[(2, (1 << 20) + 1)]), "cuda")))
    assert "one block" in str(kl.ops.square["triton-pow2"].refusal(case))
    assert kl.ops.square["triton-1024"].refusal(case) is None
