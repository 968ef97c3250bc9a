"""Time is collapsed by call stack: CPU self time, or the time of the kernels a stack launched."""

from kernellab.analysis.stacks import MAX_DEPTH, UNKNOWN, collapse_stacks
from kernellab.traces.builder import TraceBuilder
from kernellab.traces.trace import Kind, Lane

MAIN, OTHER = Lane("1", "main"), Lane("1", "autograd")
STREAM = Lane("GPU 0", "stream 7", 0, 7)


def build_trace(*rows):
    """Each row: lane, kind, name, begin, duration and, if it has one, link."""
    builder = TraceBuilder("kineto")
    for lane, kind, name, begin, duration, *link in rows:
        builder.add(kind, builder.name(name), builder.lane(lane), begin, duration, link=link[0] if link else 0)
    return builder.build()


STEP = (
    (MAIN, Kind.PYTHON, "train.py(3): step", 0, 100),
    (MAIN, Kind.MODULE, "Linear_0", 10, 60),
    (MAIN, Kind.OPERATOR, "aten::mm", 20, 40),
    (MAIN, Kind.CALL, "cudaLaunchKernel", 30, 10, 1),
    (STREAM, Kind.KERNEL, "gemm", 200, 500, 1),
)


def test_cpu_time_is_self_time():
    assert collapse_stacks(build_trace(*STEP), by="cpu") == {
        ("train.py(3): step",): 40,
        ("train.py(3): step", "Linear_0"): 20,
        ("train.py(3): step", "Linear_0", "aten::mm"): 30,
        ("train.py(3): step", "Linear_0", "aten::mm", "cudaLaunchKernel"): 10,
    }


def test_a_kernels_time_goes_to_the_stack_that_launched_it():
    assert collapse_stacks(build_trace(*STEP)) == {("train.py(3): step", "Linear_0", "aten::mm", "gemm"): 500}


def test_equal_stacks_are_summed():
    again = [(lane, kind, name, begin + 1000, *rest) for lane, kind, name, begin, *rest in STEP]
    again = [(*row[:5], 2) if len(row) > 5 else tuple(row) for row in again]
    trace = build_trace(*STEP, *again)
    assert collapse_stacks(trace) == {("train.py(3): step", "Linear_0", "aten::mm", "gemm"): 1000}
    assert sum(collapse_stacks(trace, by="cpu").values()) == 200


def test_numbered_steps_are_one_frame_and_layers_are_not():
    rows = []
    for at in range(4):
        rows += [
            (MAIN, Kind.RANGE, f"ProfilerStep#{at}", 100 * at, 90),
            (MAIN, Kind.RANGE, f"step_{at} (active)", 100 * at + 10, 70),
            (MAIN, Kind.RANGE, f"layer_{at % 2}", 100 * at + 20, 50),
        ]
    assert collapse_stacks(build_trace(*rows), by="cpu") == {
        ("ProfilerStep#*",): 80,
        ("ProfilerStep#*", "step_* (active)"): 80,
        ("ProfilerStep#*", "step_* (active)", "layer_0"): 100,
        ("ProfilerStep#*", "step_* (active)", "layer_1"): 100,
    }


def test_threads_are_named_only_if_there_are_several():
    trace = build_trace(
        *STEP, (OTHER, Kind.CALL, "cudaLaunchKernel", 300, 5, 9), (STREAM, Kind.KERNEL, "add", 900, 7, 9)
    )
    assert collapse_stacks(trace)[("autograd", "add")] == 7
    assert ("main", "train.py(3): step", "Linear_0", "aten::mm", "gemm") in collapse_stacks(trace)
    assert collapse_stacks(trace, by="cpu")[("autograd", "cudaLaunchKernel")] == 5


def test_processes_are_named_only_if_there_are_several_and_the_profiler_is_not_one():
    profilers = (Lane("profiler", "overhead"), Kind.OTHER, "buffer", 0, 5)
    other = (OTHER, Kind.OPERATOR, "aten::mul", 0, 5)
    assert ("main", "train.py(3): step") in collapse_stacks(build_trace(*STEP, other, profilers), by="cpu")
    assert ("train.py(3): step",) in collapse_stacks(build_trace(*STEP, profilers), by="cpu")
    ranked = (Lane("2", "main"), Kind.OPERATOR, "aten::mul", 0, 5)
    assert collapse_stacks(build_trace(*STEP, ranked), by="cpu")[("2, main", "aten::mul")] == 5


def test_a_kernel_without_a_launching_call_is_not_lost():
    trace = build_trace((STREAM, Kind.KERNEL, "lonely", 0, 11, 5))
    assert collapse_stacks(trace) == {(UNKNOWN, "lonely"): 11}
    assert collapse_stacks(trace, by="cpu") == {}


def test_a_frame_that_ends_after_the_frame_around_it_makes_no_time_negative():
    trace = build_trace((MAIN, Kind.OPERATOR, "outer", 0, 10), (MAIN, Kind.OPERATOR, "inner", 5, 20))
    assert collapse_stacks(trace, by="cpu") == {("outer",): 5, ("outer", "inner"): 20}


def test_deep_recursion_is_cut_and_its_time_is_kept():
    deep = 5000
    trace = build_trace(*((MAIN, Kind.PYTHON, "f", at, 2 * (deep - at)) for at in range(deep)))
    stacks = collapse_stacks(trace, by="cpu")
    assert max(map(len, stacks)) == MAX_DEPTH
    assert sum(stacks.values()) == 2 * deep


def test_an_empty_trace_has_no_stacks():
    assert (
        collapse_stacks(TraceBuilder("kineto").build())
        == collapse_stacks(TraceBuilder("kineto").build(), by="cpu")
        == {}
    )
