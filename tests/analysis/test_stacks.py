"""Whose time it was: stacks by CPU time and by the time of the kernels they started."""

from kernellab.analysis.stacks import DEEPEST, UNKNOWN, collapsed
from kernellab.traces.builder import TraceBuilder
from kernellab.traces.trace import Kind, Lane

MAIN, OTHER = Lane("1", "main"), Lane("1", "autograd")
STREAM = Lane("GPU 0", "stream 7", 0, 7)


def built(*rows):
    """Each a lane, a kind, a name, begin and duration; then the link."""
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


def test_cpu_time_is_what_nothing_inside_took():
    assert collapsed(built(*STEP), by="cpu") == {
        ("train.py(3): step",): 40,
        ("train.py(3): step", "Linear_0"): 20,
        ("train.py(3): step", "Linear_0", "aten::mm"): 30,
        ("train.py(3): step", "Linear_0", "aten::mm", "cudaLaunchKernel"): 10,
    }


def test_a_kernels_time_goes_to_the_stack_that_started_it():
    assert collapsed(built(*STEP)) == {("train.py(3): step", "Linear_0", "aten::mm", "gemm"): 500}


def test_equal_stacks_are_one():
    again = [(lane, kind, name, begin + 1000, *rest) for lane, kind, name, begin, *rest in STEP]
    again = [(*row[:5], 2) if len(row) > 5 else tuple(row) for row in again]
    trace = built(*STEP, *again)
    assert collapsed(trace) == {("train.py(3): step", "Linear_0", "aten::mm", "gemm"): 1000}
    assert sum(collapsed(trace, by="cpu").values()) == 200


def test_numbered_steps_are_one_frame_and_layers_are_not():
    rows = []
    for at in range(4):
        rows += [
            (MAIN, Kind.RANGE, f"ProfilerStep#{at}", 100 * at, 90),
            (MAIN, Kind.RANGE, f"step_{at} (active)", 100 * at + 10, 70),
            (MAIN, Kind.RANGE, f"layer_{at % 2}", 100 * at + 20, 50),
        ]
    assert collapsed(built(*rows), by="cpu") == {
        ("ProfilerStep#*",): 80,
        ("ProfilerStep#*", "step_* (active)"): 80,
        ("ProfilerStep#*", "step_* (active)", "layer_0"): 100,
        ("ProfilerStep#*", "step_* (active)", "layer_1"): 100,
    }


def test_several_threads_are_told_apart_and_one_is_not_named():
    trace = built(*STEP, (OTHER, Kind.CALL, "cudaLaunchKernel", 300, 5, 9), (STREAM, Kind.KERNEL, "add", 900, 7, 9))
    assert collapsed(trace)[("autograd", "add")] == 7
    assert ("main", "train.py(3): step", "Linear_0", "aten::mm", "gemm") in collapsed(trace)
    assert collapsed(trace, by="cpu")[("autograd", "cudaLaunchKernel")] == 5


def test_a_process_is_named_where_there_are_several_and_a_profilers_own_lane_is_none():
    profilers = (Lane("profiler", "overhead"), Kind.OTHER, "buffer", 0, 5)
    other = (OTHER, Kind.OPERATOR, "aten::mul", 0, 5)
    assert ("main", "train.py(3): step") in collapsed(built(*STEP, other, profilers), by="cpu")
    assert ("train.py(3): step",) in collapsed(built(*STEP, profilers), by="cpu")
    ranked = (Lane("2", "main"), Kind.OPERATOR, "aten::mul", 0, 5)
    assert collapsed(built(*STEP, ranked), by="cpu")[("2, main", "aten::mul")] == 5


def test_a_kernel_nobody_is_known_to_have_started_is_not_lost():
    trace = built((STREAM, Kind.KERNEL, "lonely", 0, 11, 5))
    assert collapsed(trace) == {(UNKNOWN, "lonely"): 11}
    assert collapsed(trace, by="cpu") == {}


def test_what_ends_after_the_one_around_it_makes_no_time_negative():
    trace = built((MAIN, Kind.OPERATOR, "outer", 0, 10), (MAIN, Kind.OPERATOR, "inner", 5, 20))
    assert collapsed(trace, by="cpu") == {("outer",): 5, ("outer", "inner"): 20}


def test_recursion_is_cut_but_its_time_is_kept():
    deep = 5000
    trace = built(*((MAIN, Kind.PYTHON, "f", at, 2 * (deep - at)) for at in range(deep)))
    found = collapsed(trace, by="cpu")
    assert max(map(len, found)) == DEEPEST
    assert sum(found.values()) == 2 * deep


def test_an_empty_trace_has_no_stacks():
    assert collapsed(TraceBuilder("kineto").build()) == collapsed(TraceBuilder("kineto").build(), by="cpu") == {}
