"""Simulated programs: a model of a CPU and a GPU, and the trace that a profiler would write."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kernellab.traces.builder import TraceBuilder
from kernellab.traces.trace import Kind, Lane, Trace

LATENCY, PAUSE, LAUNCH = 4_000, 1_000, 5_000
LAYERS = 8
MAIN, AUTOGRAD = Lane("7", "1"), Lane("7", "2")
GELU = "void at::native::vectorized_elementwise_kernel<4, at::native::GeluCUDAKernelImpl>"
MUL = "void at::native::vectorized_elementwise_kernel<4, at::native::MulFunctor>"
GEMM = "sm90_xmma_gemm_f32f32_tf32f32_f32_tn_n"


class Program:
    """`host`, `operator` and `wait` advance the CPU's time. A kernel runs once launched, when its stream is free."""

    def __init__(self, source: str = "kineto", script: Path | None = None, row_ns: int = 0) -> None:
        self.builder = TraceBuilder(source)
        if script:
            self.builder.metadata["kernellab"] = {"script": str(script)}
        self.row_ns = row_ns  # profiler overhead per operator; a tenth of it per Python call, half per CUDA call
        self.now, self.link, self.thread = 0, 0, MAIN
        self.free: dict[int, int] = {}
        self.sequence = 0

    def host(self, us: float) -> None:
        self.now += round(us * 1000)

    @contextmanager
    def row(self, kind: Kind, name: str, **more: object) -> Iterator[None]:
        begin, lane = self.now, self.builder.lane(self.thread)
        self.now += self.row_ns // (10 if kind in (Kind.PYTHON, Kind.MODULE) else 1) + 10
        yield
        self.now += 10
        sequence = int(more.pop("sequence", 0))
        detail = self.builder.detail(repr(more), more) if more else 0
        self.builder.add(kind, self.builder.name(name), lane, begin, self.now - begin, sequence=sequence, detail=detail)

    def python(self, name: str):
        return self.row(Kind.PYTHON, name)

    def module(self, name: str):
        return self.row(Kind.MODULE, name)

    def range(self, name: str):
        return self.row(Kind.RANGE, name)

    @contextmanager
    def operator(self, name: str, *shapes: list[int], us: float = 5, sequence: int = 0) -> Iterator[None]:
        more = {"shapes": list(shapes), "types": ["float"] * len(shapes)} if shapes else {}
        with self.row(Kind.OPERATOR, name, sequence=sequence, **more):
            self.host(us)
            yield

    def forward(self) -> int:
        self.sequence += 1
        return self.sequence

    @contextmanager
    def on(self, thread: Lane) -> Iterator[None]:
        before, self.thread = self.thread, thread
        yield
        self.thread = before

    def kernel(self, name: str, us: float, *, stream: int = 7, kind: Kind = Kind.KERNEL, **more) -> None:
        self.link += 1
        begin = self.now
        starts = max(begin + LATENCY, self.free.get(stream, -PAUSE) + PAUSE)
        ends = starts + round(us * 1000)
        # A copy from pageable memory blocks the call until it is done.
        self.now = max(begin + LAUNCH + self.row_ns // 2, ends if kind is Kind.COPY else 0)
        thread = self.builder.lane(self.thread)
        called = self.builder.name("cudaMemcpyAsync" if kind is Kind.COPY else "cudaLaunchKernel")
        self.builder.add(Kind.CALL, called, thread, begin, self.now - begin, link=self.link)
        lane = self.builder.lane(Lane("GPU 0", f"stream {stream}", 0, stream))
        detail = self.builder.detail(repr(more), more) if more else 0
        self.builder.add(kind, self.builder.name(name), lane, starts, ends - starts, link=self.link, detail=detail)
        self.free[stream] = ends

    def wait(self, name: str = "cudaStreamSynchronize") -> None:
        begin = self.now
        self.now = max(self.now, *self.free.values(), 0) + 2_000
        self.builder.add(Kind.CALL, self.builder.name(name), self.builder.lane(self.thread), begin, self.now - begin)

    def copy(self, direction: str, us: float, size: int) -> None:
        """A copy from or to pageable memory."""
        self.kernel(f"Memcpy {direction}", us, kind=Kind.COPY, bytes=size)
        self.wait()

    def item(self) -> None:
        with self.operator("aten::item"), self.operator("aten::_local_scalar_dense"):
            self.copy("DtoH (Device -> Pageable)", 1, 4)

    def trace(self) -> Trace:
        return self.builder.build()


def named(rows: list[dict], name: str) -> dict:
    return next(row for row in rows if row["name"] == name)


def as_recorded_by_nsys(trace: Trace) -> Trace:
    """The trace with only ranges of the program, CUDA calls and the work they launched: no operators, no Python."""
    builder = TraceBuilder("nsys")
    for row in trace.rows(Kind.RANGE, Kind.CALL, Kind.KERNEL, Kind.COPY):
        if "#" not in trace.name_of(row):
            builder.add(
                Kind(trace.kind[row]), builder.name(trace.name_of(row)), builder.lane(trace.lanes[trace.lane[row]]),
                int(trace.begin[row]), int(trace.duration[row]), link=int(trace.link[row]),
            )  # fmt: skip
    return builder.build()


SCRIPT = """\
import torch


def gelu(x):
    return 0.5 * x * (1 + torch.tanh(0.8 * (x + 0.04 * x * x * x)))


def batch():
    return work()


for data in loader:
    with range("step"):
        inputs = data.to("cuda")
        loss = model(inputs)
        loss.backward()
        optimizer.step()
        print(loss)
        batch()
        record(total + loss.item())
        print("done")
"""


class Training:
    """The steps of an MLP. `slowed` names what slows it, to compare a predicted gain with the real one."""

    def __init__(
        self, folder: Path, *slowed: str, steps: int = 12, gpu_us: float = 20, row_ns: int = 0, layers: int = 8
    ):
        self.script = folder / "train.py"
        self.script.write_text(SCRIPT)
        self.slowed, self.gpu_us, self.layers = slowed, gpu_us, layers
        self.run = Program(script=self.script, row_ns=row_ns)
        with self.run.python("train.py(1): <module>"):
            for step in range(steps):
                self._fetch()
                with self.run.range(f"step_{step}"):
                    self._step()
        self.ends = max(self.run.now, *self.run.free.values())
        self.step_us = self.ends / 1e3 / steps
        self.trace = self.run.trace()

    def _fetch(self) -> None:
        with self.run.python("torch/utils/data/dataloader.py(700): __next__"):
            self.run.host(3000 if "loader" in self.slowed else 2)

    def _step(self) -> None:
        run = self.run
        if "copy" in self.slowed:
            with run.python("<built-in method to of Tensor object at 0x1>"), run.operator("aten::to"):
                run.copy("HtoD (Pageable -> Device)", 400, 1 << 20)
        done = []
        with run.range("forward"), run.module("MLP_0"):
            for layer in range(LAYERS):
                with run.range(f"layer_{layer}"), run.module(f"Linear_{layer}"):
                    number = run.forward()
                    linear = run.operator("aten::linear", [128, 1024], [1024, 1024])
                    with linear, run.operator("aten::addmm", [1024], [128, 1024], [1024, 1024], sequence=number):
                        run.kernel(GEMM, self.gpu_us)
                done.append(("AddmmBackward0", number, 2))
                done += self._activation()
        with run.python("torch/_tensor.py(500): backward"), run.range("backward"), run.on(AUTOGRAD):
            for name, number, kernels in reversed(done):
                node = f"autograd::engine::evaluate_function: {name}"
                product = name.startswith("Addmm")
                inner = "aten::mm" if product else "aten::mul"
                with run.operator(node, sequence=number), run.operator(inner, [128, 1024], [128, 1024]):
                    for _ in range(kernels):
                        run.kernel(GEMM if product else MUL, self.gpu_us if product else 3)
        optimizer, torch_range = (
            run.python("torch/optim/optimizer.py(509): wrapper"),
            run.range("Optimizer.step#Adam.step"),
        )
        with optimizer, run.range("optimizer_step"), torch_range, run.operator("aten::_foreach_add_"):
            run.kernel("void at::native::multi_tensor_apply_kernel<Adam>", 10)
        if "print" in self.slowed:
            with run.python("<built-in function print>"), run.python("torch/_tensor.py(568): __repr__"):
                run.host(40)
                for _ in range(10):  # what is finite, the largest, the smallest
                    with run.operator("aten::abs"):
                        run.kernel("void at::native::reduce_kernel<512, 1, at::native::ReduceOp>", 2)
                run.item()
                run.item()
        if "item" in self.slowed:
            with run.python("<built-in method item of Tensor object at 0x2>"):
                run.item()
            with run.python("<built-in function record>"):
                run.host(50)
        if "host" in self.slowed:
            with run.python("train.py(8): batch"):
                run.host(2000)

    def _activation(self) -> list[tuple[str, int, int]]:
        run, tensor = self.run, [128, 1024]
        if "gelu" not in self.slowed:
            number = run.forward()
            with run.operator("aten::gelu", tensor, sequence=number):
                run.kernel(GELU, 3)
            return [("GeluBackward0", number, 1)]
        numbers = []
        with run.python("train.py(4): gelu"):
            for name in ("mul", "mul", "mul", "add", "mul", "tanh", "add", "mul", "mul"):
                numbers.append(run.forward())
                with run.operator(f"aten::{name}", tensor, tensor, sequence=numbers[-1]):
                    run.kernel(MUL, 3)
        return [("MulBackward0", number, 1) for number in numbers]


def fetching(folder: Path, load_us: float, copy_us: float) -> Program:
    """Nine steps whose one line loads data and copies it to the GPU."""
    script = folder / "fetch.py"
    script.write_text('for number in range(9):\n    x = next(loader).to("cuda")\n    model(x)\n')
    run = Program(script=script)
    with run.python("fetch.py(1): <module>"):
        for step in range(9):
            with run.range(f"step_{step}"):
                if load_us:
                    with (
                        run.python("<built-in function next>"),
                        run.python("torch/utils/data/dataloader.py(700): __next__"),
                    ):
                        run.host(load_us)
                if copy_us:
                    with run.python("<built-in method to of Tensor object at 0x1>"), run.operator("aten::to"):
                        run.copy("HtoD (Pageable -> Device)", copy_us, 1 << 20)
                with run.module("MLP_0"):
                    for _ in range(10):
                        with run.operator("aten::mm"):
                            run.kernel(GEMM, 30)
    return run
