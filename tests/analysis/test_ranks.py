"""Several ranks compared: how long each waits for the others, and what it computes."""

from kernellab.analysis.ranks import compare_ranks
from kernellab.reporting.profiles.ranks import lines
from kernellab.traces.builder import TraceBuilder
from kernellab.traces.trace import Kind, Lane

US = 1000


class Rank:
    """A rank's trace in microseconds of its own clock, which began at `zero`."""

    def __init__(self, number, zero=0):
        self.builder = TraceBuilder("kineto")
        self.builder.metadata = {"rank": number}
        self.builder.zero_ns = zero * US
        self.main, self.gloo = (self.builder.lane(Lane("p", name)) for name in ("main", "gloo"))

    def add(self, kind, name, begin, duration, lane=None, **more):
        self.builder.add(
            kind, self.builder.name(name), self.main if lane is None else lane, begin * US, duration * US, **more
        )
        return self

    def reduce(self, begin, duration):
        return self.add(Kind.RANGE, "gloo:all_reduce", begin, duration, self.gloo)

    def trace(self):
        self.add(Kind.RANGE, "begin", 0, 1)  # so that the clock begins at 0
        return self.builder.build()


def test_the_rank_that_arrives_first_waits_for_the_last():
    early = Rank(0).reduce(100, 60).reduce(300, 50)
    late = Rank(1, zero=10).reduce(130, 20).reduce(280, 60)  # at 140 and 290 on the wall clock
    document = compare_ranks([early.trace(), late.trace()])
    first, second = document["ranks"]
    assert (first["wait_us"], second["wait_us"]) == (40, 10)
    assert (first["came_last"], second["came_last"]) == (1, 1)
    assert (first["all_reduce_us"], second["all_reduce_us"]) == (110, 80)
    assert "Rank 0 waited longest for the others, 40 µs of its 110 µs in 2 collectives" in lines(document)[0]


def test_compute_is_listed_by_layer_forward_and_backward():
    rank = Rank(0)
    for step in (0, 1000):
        rank.add(Kind.RANGE, "layer_0", step + 10, 30).add(Kind.RANGE, "layer_1", step + 40, 20)
        rank.add(Kind.OPERATOR, "aten::addmm", step + 12, 10, sequence=step + 1)
        rank.add(Kind.OPERATOR, "aten::gelu", step + 45, 10, sequence=step + 2)
        node = "autograd::engine::evaluate_function: "
        rank.add(Kind.OPERATOR, node + "GeluBackward0", step + 100, 70, sequence=step + 2)
        rank.add(Kind.OPERATOR, node + "AddmmBackward0", step + 200, 50, sequence=step + 1)
    document = compare_ranks([rank.trace()])
    layers = [
        (row["layer"], row["count"], row["forward_us"], row["backward_us"]) for row in document["ranks"][0]["layers"]
    ]
    assert layers == [("layer_0", 2, 30, 50), ("layer_1", 2, 20, 70)]
    assert any("30 µs + 50 µs" in line for line in lines(document))


def test_with_a_gpu_the_time_of_kernels_counts():
    rank = Rank(0)
    stream = rank.builder.lane(Lane("GPU 0", "stream 7", 0, 7))
    rank.add(Kind.RANGE, "layer_0", 10, 30).add(Kind.CALL, "cudaLaunchKernel", 15, 5, link=1)
    rank.add(Kind.KERNEL, "gemm", 500, 90, stream, link=1)
    rank.add(Kind.KERNEL, "ncclDevKernel_AllReduce_Sum", 600, 40, stream)
    document = compare_ranks([rank.trace()])["ranks"][0]
    assert document["layers"][0]["forward_us"] == 90
    assert document["all_reduce_us"] == 40


def test_ranks_with_different_numbers_of_collectives_are_compared_up_to_the_fewest():
    document = compare_ranks([Rank(0).reduce(5, 5).reduce(20, 5).trace(), Rank(1).reduce(8, 5).trace()])
    assert document["uneven"]
    assert document["matched"] == 1
    assert document["ranks"][0]["wait_us"] == 3
    assert "left out" in lines(document)[0]
