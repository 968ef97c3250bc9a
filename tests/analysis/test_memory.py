"""Memory at its peak is attributed to what allocated it."""

from kernellab.analysis.document import analyse
from support.traced import AUTOGRAD, GEMM, Program


def test_memory_at_the_peak_is_attributed_to_what_was_running_when_it_was_allocated():
    run = Program()

    def allocate(size, total, address):
        run.builder.add_allocation(run.now, size, total, 0, address, run.builder.lane(run.thread))
        run.host(1)

    with run.python("own.py(1): <module>"), run.range("step_0"):
        with run.module("Linear_0"), run.operator("aten::addmm", sequence=run.forward()):
            allocate(100, 1100, 1)
            allocate(40, 1140, 2)
            run.kernel(GEMM, 5)
        allocate(-40, 1100, 2)
        with run.on(AUTOGRAD), run.operator("autograd::engine::evaluate_function: AddmmBackward0", sequence=1):
            allocate(300, 1400, 3)
        allocate(-100, 1300, 1)
    memory = analyse(run.trace())["memory"]
    assert memory["peak_bytes"] == 1400
    categories = {row["name"]: row["bytes"] for row in memory["categories"]}
    assert categories == {
        "before the trace began (parameters, states)": 1000,
        "gradients and backward": 300,
        "activations": 100,
    }
    assert memory["modules"] == [{"path": ["Linear_0"], "bytes": 400}]
    largest = memory["largest"][0]
    assert largest["bytes"] == 300
    assert largest["freed_us"] is None
    assert largest["stack"] == ["own.py(1): <module>"]
    assert [total for _, total in memory["timeline"]] == [1100, 1140, 1100, 1400, 1300]
