"""benchmarks/kernels.py: which cells are measured in which order, and what their page says."""

import json

import kernellab as kl
from kernellab.declaration.case_request import CaseRequest, parse_shapes
from support.benchmarks import load_script

kernels = load_script("kernels")
Cell = kernels.Cell
OPS = ["softmax", "cross_entropy", "rms_norm", "rope", "gelu"]


def test_the_ops_of_the_grid_are_those_with_kernels_of_ours():
    impls = kernels.kernels_of_ops()
    assert list(impls)[:2] == ["softmax", "cross_entropy"]
    assert "matmul" not in impls
    assert impls["rope"] == ["compile", "triton", "cuda"]  # PyTorch has no such op
    assert impls["gelu"] == ["torch", "compile", "triton", "cuda"]


def test_a_larger_sample_continues_a_smaller_one_and_does_not_depend_on_other_ops():
    sample = kernels.sample_cells(OPS)
    assert len(set(sample)) == len(sample) > 150
    assert not set(sample) & set(kernels.core_cells(OPS))
    assert kernels.sample_cells(OPS[1:]) == [cell for cell in sample if cell.op != "softmax"]
    assert {cell.dtype for cell in sample[:24]} == {"bfloat16", "float32"}
    assert {(cell.rows, cell.cols) for cell in sample if cell.op == "cross_entropy" and cell.dtype == "bfloat16"} == {
        (1024, 262144),
        *((rows, cols) for rows in kernels.TOKENS for cols in kernels.VOCABULARIES),
    }


def test_a_case_is_recognised_as_the_cell_it_was_measured_for():
    for cell in [*kernels.core_cells(OPS), *kernels.sample_cells(OPS)]:
        request = CaseRequest(parse_shapes(cell.shape), [cell.dtype], {}, {}, False)
        (case,) = getattr(kl.ops, cell.op).expand(request, "cuda")
        assert kernels._cell_of(cell.op, case.to_json()) == cell


def test_a_command_measures_all_cells_of_an_op_that_are_left():
    cells = [Cell("gelu", 8, 16), Cell("rope", 8, 256), Cell("gelu", 8, 32), Cell("gelu", 8, 64)]
    assert kernels.plan(cells, {Cell("gelu", 8, 32): ()}) == [[cells[0], cells[3]], [cells[1]]]
    assert kernels.plan(cells, cells) == []


def test_runs_are_numbered_in_the_order_in_which_they_began(tmp_path):
    for name in ("run-9", "run-10", "ceilings-3"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "journal.jsonl").touch()
    assert [folder.name for folder in kernels._numbered(tmp_path, "run")] == ["run-9", "run-10"]
    assert kernels._next(tmp_path, "run").name == "run-11"
    assert kernels._next(tmp_path / "empty", "run").name == "run-1"


def test_logits_whose_oracle_needs_slices_of_rows_are_summed():
    assert Cell("cross_entropy", 4096, 131072).options == []
    assert Cell("cross_entropy", 32768, 152064).options == ["reduction=sum"]


def test_the_remaining_time_follows_from_what_commands_have_taken(tmp_path):
    commands = [[Cell("gelu", 8, 16), Cell("gelu", 8, 32)], [Cell("cross_entropy", 8, 16)]]
    assert "about 2 minutes, at 20 s per command and 11 s per pass" in kernels.describe_plan(commands, tmp_path)
    (tmp_path / "commands.jsonl").write_text(json.dumps({"run": "run-1", "passes": 4, "seconds": 120.0}) + "\n")
    assert "about 4 minutes, at 30.0 s per pass" in kernels.describe_plan(commands, tmp_path)


def measured(impl, us=None, *, share=0.99, bytes_=1e9, status="ok", reason=None, guards=()):
    limit = {"fraction": share, "gbps": 4000.0, "bytes": bytes_}
    time = {"median_us": us} if us else None
    return {
        "impl": impl,
        "guards": [{"name": name, "detail": ""} for name in guards],
        "check": {"status": status, "reason": reason},
        "gradients": None,
        "derived": {
            "passes": {name: {"time": time, "limit": limit} for name in ("forward", "backward")},
            "status": status,
            "reason": reason,
            "timing": {"reason": "not reached"},
        },
    }


def misses(op, pass_name, *results, rows=4096, cols=131072, dtype="bfloat16"):
    return kernels.CellVerdict(Cell(op, rows, cols, dtype), pass_name, list(results)).misses()


def test_a_cell_misses_what_was_promised():
    ours = measured("cuda", 100.0), measured("triton", 104.0)
    assert misses("softmax", "forward", *ours, measured("torch", 99.5), measured("quack", 140.0)) == []
    slower = misses("softmax", "forward", *ours, measured("quack", 90.0), measured("torch", 140.0))
    assert slower == ["0.900 of quack's speed, 0.99 promised"]
    assert misses("softmax", "forward", measured("cuda", 100.0, share=0.94)) == ["0.940 of copy, 0.95 promised"]
    assert misses("softmax", "forward", measured("cuda", 100.0, share=0.94, bytes_=4e8)) == []
    assert misses("softmax", "backward", measured("cuda", 100.0, share=0.8)) == []
    assert misses("rms_norm", "backward", measured("cuda", 100.0, share=0.86), measured("quack", 120.0)) == [
        "1.200 of quack's speed, 1.3 promised"
    ]
    assert misses("softmax", "forward", measured("torch", 9.0)) == ["no kernel of ours has a time"]
    wrong = measured("triton", status="wrong", reason="values: error 12")
    assert misses("softmax", "forward", measured("cuda", 9.0), wrong) == ["triton: wrong: values: error 12"]


def test_gradients_that_were_computed_in_forward_are_no_time_of_backward():
    liger = measured("liger", 10.0, guards=["pass"])
    verdict = kernels.CellVerdict(Cell("cross_entropy", 8, 16), "backward", [measured("cuda", 100.0), liger])
    assert (verdict.other, verdict.absent) == (None, {"liger": "computes its gradients in the forward pass"})
    forward = kernels.CellVerdict(Cell("cross_entropy", 8, 16), "forward", [measured("cuda", 100.0), liger])
    assert forward.other == "liger"


def test_a_row_shows_every_implementation_and_marks_the_fastest():
    results = [
        measured("cuda", 100.0),
        measured("torch", 120.0),
        measured("liger", status="skipped", reason="too wide"),
    ]
    verdict = kernels.CellVerdict(Cell("gelu", 8, 16), "forward", results)
    row = ["8×16", "bfloat16", "0.990", "4000", "1.20×", "**100 µs**", "120 µs", "–"]
    assert verdict.row(["cuda", "torch", "liger"]) == row
    assert verdict.absent == {"liger": "too wide"}
