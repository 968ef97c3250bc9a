"""From the machine code of a record to kernels."""

import pytest

from kernellab.explaining.kernel_reader import read_kernels, unfit_kernels
from support.explain_records import code_entry, code_kernel, loop, tuned_entry
from support.subjects import GB

LOAD = {"global_load": 1}


def read_one(kernel):
    (read,) = read_kernels(code_entry(kernel))
    return read


def test_a_launch_touches_no_more_of_a_tensor_than_its_threads_request():
    assert read_one(code_kernel()).pointer_bytes == 8 * 128 * 32
    assert read_one(code_kernel(loops=[loop(LOAD)])).pointer_bytes == 2 * GB


def test_wide_stores_do_not_hide_narrow_loads():
    accesses = [{"kind": "global_load", "bytes": 2, "count": 8}, {"kind": "global_store", "bytes": 16, "count": 1}]
    assert read_one(code_kernel(accesses=accesses)).widest_bytes == 2


def test_loads_beside_the_hot_loop_do_not_make_its_iterations_smaller():
    """As where the ends of a row are read one element at a time, and its middle 16 bytes at a time."""
    accesses = [{"kind": "global_load", "bytes": 2, "count": 6}, {"kind": "global_load", "bytes": 16, "count": 4}]
    head, middle = loop(LOAD, load_bytes=2.0, size=9), loop({"global_load": 4}, load_bytes=16.0, size=90)
    assert read_one(code_kernel(accesses=accesses, loops=[head, middle])).load_bytes == 16.0
    assert read_one(code_kernel(accesses=accesses)).load_bytes == pytest.approx(7.6)


def test_the_slow_path_of_sin_is_no_loop_of_the_kernel():
    table = [loop({"global_load": 1, "local_store": 1})]
    assert read_one(code_kernel(loops=table, stack_bytes=32)).loop is None
    assert read_one(code_kernel(loops=table, stack_bytes=256)).loop is not None


@pytest.mark.parametrize(
    ("loops", "number"),
    [
        ([], 0),
        ([loop(LOAD, sources=["k.py:3"]), loop(LOAD, sources=["k.py:9"])], 2),
        ([loop(LOAD, sources=["k.py:3"]), loop({"fp32": 2}, sources=["k.py:12"])], 1),
        ([loop(LOAD, sources=["k.py:3"]), loop(LOAD, sources=["k.py:9"], depth=2)], 1),
        # Split by the compiler, or two that call one function.
        ([loop(LOAD, sources=[line], statement="k.cu:2") for line in ("k.cu:3", "k.cu:4")], 1),
        ([loop(LOAD, sources=["f.cuh:1"], statement=line) for line in ("k.cu:2", "k.cu:7")], 2),
    ],
)
def test_loops_that_load_are_counted_by_their_statements_in_the_source(loops, number):
    assert read_one(code_kernel(loops=loops)).loading_loops == number


def test_loops_of_unknown_length_without_loads_are_counted_once():
    loops = [loop({"fp32": 4}), loop({"fp32": 4}, turns=9), loop(LOAD), loop({"fp32": 4}, waits=True)]
    assert read_one(code_kernel(loops=loops)).once_loops == 1


def test_instructions_of_loops_of_unknown_length_are_the_maximum_by_class():
    loops = [loop({"fp32": 4, "integer": 1}), loop({"fp32": 2, "integer": 3}), loop({"fp32": 99}, turns=9), loop(LOAD)]
    assert read_one(code_kernel(loops=loops)).unknown_turns == {"fp32": 4, "integer": 3}


def test_a_grid_that_no_gpu_accepts_cannot_launch():
    assert read_one(code_kernel(grid=(1, 70000, 1))).refusal == "a grid has at most 65535 blocks along y, not 70000"
    assert read_one(code_kernel()).refusal == ""


def test_every_configuration_that_fits_is_read_where_the_choice_is_not_known():
    assert [kernel.tuned for kernel in read_kernels(tuned_entry(None, 2, 16))] == [[1, 3], [2, 3]]


def test_only_the_configuration_that_the_tuner_chose_is_read():
    choices = [{"kernel": "k", "config": {"BLOCK": 128, "num_warps": 4}}]
    assert [kernel.tuned for kernel in read_kernels(tuned_entry(2, 16), choices)] == [[1, 2]]
    other = [{"kernel": "another", "config": {"BLOCK": 128}}]
    assert len(read_kernels(tuned_entry(2, 16), other)) == 2


def test_a_kernel_without_a_configuration_that_fits_is_named_with_the_reason():
    assert unfit_kernels(tuned_entry(None, None)) == ["k does not fit: out of shared memory"]
    assert unfit_kernels(tuned_entry(None, 2)) == []
