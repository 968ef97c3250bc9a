"""`klab check` as a person meets it."""

from support.klab import OPFILES


def test_json_is_one_document_and_nothing_else(klab):
    seen = klab("check", "square", "--impl", "manual,torch", "--shape", "32x32", "--json")
    assert seen.code == 0, seen.err
    record = seen.record
    assert record["schema"] == 3
    assert record["environment"]["packages"]["torch"]
    for result in record["results"]:
        assert result["derived"]["status"] == "ok"
        assert result["derived"]["rules"] == 4


def test_dims_sweep_and_the_record_is_written_where_out_names(klab, tmp_path):
    seen = klab("check", "softmax", "--impl", "torch", "--N", "8:32:x2", "--out", "here", "--json", "--device", "cpu")
    assert [r["case"]["dims"]["N"] for r in seen.record["results"]] == [8, 16, 32]
    assert (tmp_path / "here" / "run.json").exists()
    again = klab("check", "softmax", "--out", "here")
    assert (again.code, "already holds a run" in again.err) == (2, True)


def test_files_may_hold_several_ops_and_one_can_be_named(klab):
    path = OPFILES / "sketches.py"
    both = klab("check", path, "--declared", "--impl", "torch", "--device", "cpu", "--json")
    assert {r["op"] for r in both.record["results"]} == {"cross_entropy", "attention"}
    one = klab("check", f"{path}:attention", "--declared", "--impl", "torch", "--device", "cpu", "--json")
    assert {r["op"] for r in one.record["results"]} == {"attention"}


def test_a_dim_may_stand_before_the_op(klab):
    seen = klab("check", "--N", "8,9", "softmax", "--impl", "torch", "--device", "cpu", "--json")
    assert [r["case"]["dims"]["N"] for r in seen.record["results"]] == [8, 9]


def test_a_dtype_without_a_kernel_is_skipped_not_failed(klab):
    seen = klab(
        "check", "square", "--dtype", "float64", "--shape", "8", "--device", "cpu", "--impl", "torch,triton,cpp"
    )
    assert (seen.code, "triton  skipped: has no float64 kernel" in seen.out) == (0, True)
