"""The `graph` timer: CUDA events around the replay of a graph of calls, each on its own inputs."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kernellab.timing.timer import COLD, Burst, BurstSpec, BurstTimer, NotApplicable
from kernellab.timing.window import make_calls, try_hold, wait_for

if TYPE_CHECKING:
    import torch

    from kernellab.timing.timed_impl import TimedImpl


@dataclass(frozen=True)
class _CapturedCalls:
    """A graph of `calls` calls; replaying it writes `result` from the input set `number`."""

    calls: int
    graph: torch.cuda.CUDAGraph
    result: object
    number: int


class GraphTimer(BurstTimer):
    """The GPU's time without the host's launches."""

    name = "graph"
    devices = ("cuda",)
    panel_caches = (COLD,)
    overhead_rank = 1
    measures = "replay of a CUDA graph"
    help = "replay of a CUDA graph"
    least_calls = 8  # a replay itself has an overhead

    def __init__(self, device: torch.device, cache: str) -> None:
        from kernellab.timing.cache import CacheFlush
        from kernellab.timing.cuda_clock import Marks

        super().__init__(device, cache)
        self._new_marks = Marks
        self._flush = CacheFlush(device) if cache == COLD else None
        self._hold = try_hold(device)
        self._captured: dict[str, _CapturedCalls] = {}

    def burst(self, impl: TimedImpl, spec: BurstSpec) -> Burst:
        if impl.prepare_runs_impl or impl.restores_inputs or impl.copies_inputs:
            raise NotApplicable("only a forward pass that does not change its inputs can be captured in a graph")
        if impl.name in self._captured and self._captured[impl.name].calls != spec.calls:
            del self._captured[impl.name]  # frees the memory of its results before the next capture
        if impl.name not in self._captured:
            self._captured[impl.name] = self._capture(impl, spec.calls)
        captured = self._captured[impl.name]
        marks = []
        for window in range(spec.windows):
            mark = self._new_marks(self.device)
            with self._hold() if self._hold else contextlib.nullcontext():
                if spec.swap and window == 0:
                    impl.sets.swap()
                if self._flush:
                    self._flush()
                else:
                    captured.graph.replay()
                mark.start()
                captured.graph.replay()
                mark.end()
            marks.append(mark)
        spec.verify(captured.result, captured.number)
        tail_us = wait_for(self.device)
        return Burst([mark.elapsed_us() / captured.calls for mark in marks], tail_us)

    def _capture(self, impl: TimedImpl, calls: int) -> _CapturedCalls:
        import torch

        numbers = impl.draw(calls, distinct=self.cache == COLD)
        prepared = impl.prepare_calls(numbers)
        side = torch.cuda.Stream(self.device)
        side.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(side):  # one-time allocations and loads happen here, before the capture
            for call in prepared:
                call()
        torch.cuda.current_stream(self.device).wait_stream(side)
        wait_for(self.device)
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph):
                result, index = make_calls(prepared, self.cache, impl)
        except Exception as error:
            raise NotApplicable(f"cannot be captured in a CUDA graph: {error}") from error
        return _CapturedCalls(calls, graph, result, numbers[index])
