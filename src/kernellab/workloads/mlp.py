"""The MLP: Linear(dim, dim) and GeLU, over and over; its loss is the mean of what comes out.

Its ranges are `define_model`, `define_input`, and for every step `step_<i>` with `forward` (`layer_<i>` inside),
`backward` and `optimizer_step`. Capturing begins at `step_11`: the steps before it compile, tune and allocate.
"""

from __future__ import annotations

import contextlib
import os
import resource
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn import functional

from kernellab.base.errors import UserError
from kernellab.profiler import session
from kernellab.profiler.ranges import captures
from kernellab.profiler.ranges import range as named
from kernellab.profiler.steps import step as step_ended
from kernellab.workloads.mlp_setup import FIRST_CAPTURED, Setup

_BATCHES = 8  # of the generated data set


class MLP(torch.nn.Module):
    """`num_layers` times Linear(dim, dim) → GeLU, exact (by erf)."""

    def __init__(self, dim: int, num_layers: int) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(dim, dim) for _ in range(num_layers))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for number, layer in enumerate(self.layers):
            with named(f"layer_{number}"):
                x = functional.gelu(layer(x))
        return x


@dataclass(frozen=True)
class Trained:
    """How a run of the MLP went. Peak memory is what torch held on a GPU; on the CPU what the process held."""

    loss: float
    seconds: float
    num_steps: int
    peak_bytes: int
    device: str

    @property
    def step_us(self) -> float:
        return 1e6 * self.seconds / self.num_steps


def run_mlp(dim: int, num_layers: int, batch_size: int, num_steps: int, use_optimizer: bool = False) -> Trained:
    """Train the MLP for some steps on one random batch, on the GPU if there is one; Adam or no optimizer."""
    return train(Setup(dim, num_layers, batch_size, num_steps, "adam" if use_optimizer else "none"))


def train(setup: Setup) -> Trained:
    setup.refuse(capturing=session.current() is None and captures())
    device = _device(setup.device)
    on_gpu = device.type == "cuda"
    if on_gpu:
        torch.cuda.set_device(device)
        torch.cuda.reset_peak_memory_stats(device)
    with named("define_model"):
        model: torch.nn.Module = _distributed(MLP(setup.dim, setup.layers).to(device), device)
        optimizer = _optimizer(setup.optimizer, model)
        rate = _rate(setup, optimizer)
    with named("define_input"):
        batches = _batches(setup, device)
    loss = torch.zeros(())
    began = time.perf_counter()
    with _capture(device) as begin_capture:
        for number in range(setup.steps):
            if number == FIRST_CAPTURED:
                begin_capture()
            with named(f"step_{number}"):
                loss = _step(model, optimizer, rate, batches)
            step_ended()
    if on_gpu:
        torch.cuda.synchronize(device)
    seconds = time.perf_counter() - began
    peak = torch.cuda.max_memory_allocated(device) if on_gpu else _process_peak()
    return Trained(float(loss), seconds, setup.steps, peak, str(device))


def _step(model: torch.nn.Module, optimizer: Any, rate: Any, batches: Iterator[torch.Tensor]) -> torch.Tensor:
    if optimizer is not None:
        optimizer.zero_grad()
    else:
        model.zero_grad(set_to_none=True)
    x = next(batches)
    with named("forward"):
        loss: torch.Tensor = model(x).mean()
    with named("backward"):
        loss.backward()
    if optimizer is not None:
        with named("optimizer_step"):
            optimizer.step()
            if rate is not None:
                rate.step()
    return loss.detach()


def _device(asked: str) -> torch.device:
    if asked.startswith("cuda") and (torch.device(asked).index or 0) >= torch.cuda.device_count():
        raise UserError(f"--device {asked}: torch sees {torch.cuda.device_count()} NVIDIA GPUs here")
    if asked != "auto":
        return torch.device(asked)
    local = int(os.environ.get("LOCAL_RANK", 0))
    return torch.device("cuda", local) if torch.cuda.device_count() > local else torch.device("cpu")


def _distributed(model: torch.nn.Module, device: torch.device) -> torch.nn.Module:
    """Under torchrun, one of several replicas whose gradients are averaged."""
    if int(os.environ.get("WORLD_SIZE", 1)) == 1:
        return model
    if not torch.distributed.is_initialized():
        torch.distributed.init_process_group("nccl" if device.type == "cuda" else "gloo")
    from torch.nn.parallel import DistributedDataParallel

    return DistributedDataParallel(model, device_ids=[device.index] if device.type == "cuda" else None)


def _optimizer(name: str, model: torch.nn.Module) -> torch.optim.Optimizer | None:
    kinds = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW, "sgd": torch.optim.SGD}
    return kinds[name](model.parameters(), lr=1e-3) if name != "none" else None


def _rate(setup: Setup, optimizer: torch.optim.Optimizer | None) -> Any:
    """The learning rate over the steps: as it is, falling by a cosine, or rising over the first tenth."""
    if optimizer is None or setup.rate == "constant":
        return None
    if setup.rate == "cosine":
        return torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, setup.steps)
    rise = max(1, setup.steps // 10)
    return torch.optim.lr_scheduler.LinearLR(optimizer, 0.1, 1.0, rise)


def _batches(setup: Setup, device: torch.device) -> Iterator[torch.Tensor]:
    if not setup.data:
        x = torch.randn(setup.batch, setup.dim, device=device)
        return iter(lambda: x, None)
    rows = torch.randn(_BATCHES * setup.batch, setup.dim)
    loader = torch.utils.data.DataLoader(
        torch.utils.data.TensorDataset(rows),
        batch_size=setup.batch,
        shuffle=True,
        num_workers=setup.workers,
        persistent_workers=setup.workers > 0,
        pin_memory=device.type == "cuda",
    )
    return _loaded(loader, device)


def _loaded(loader: Any, device: torch.device) -> Iterator[torch.Tensor]:
    """Batches of one epoch after the other, on the device."""
    while True:
        batches = iter(loader)
        while True:
            with named("load_batch"):
                batch = next(batches, None)
                if batch is None:
                    break
                x = batch[0].to(device, non_blocking=True)
            yield x


@contextlib.contextmanager
def _capture(device: torch.device) -> Iterator[Any]:
    """Tells NVIDIA's tools which steps to record: from the call of what it yields to the end. The profiler of a
    session has its schedule instead."""
    begun = False

    def begin() -> None:
        nonlocal begun
        begun = device.type == "cuda" and session.current() is None
        if begun:
            torch.cuda.cudart().cudaProfilerStart()

    try:
        yield begin
    finally:
        if begun:
            torch.cuda.synchronize(device)
            torch.cuda.cudart().cudaProfilerStop()


def _process_peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
