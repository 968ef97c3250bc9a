"""The MLP: Linear(dim, dim) and GeLU in each layer; its loss is the mean of its output.

Its ranges are `define_model`, `define_input`, and for every step `step_<i>` with `forward` (`layer_<i>` inside),
`backward` and `optimizer_step`. Capturing begins at `step_11`: the steps before it compile, tune and allocate.
"""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch.nn import functional
from torch.optim.lr_scheduler import CosineAnnealingLR, LinearLR, LRScheduler
from torch.utils.data import DataLoader, TensorDataset

from kernellab.base.errors import UserError
from kernellab.profiler import session
from kernellab.profiler.protocol import TrainingJson
from kernellab.profiler.ranges import nvidia_tool_attached
from kernellab.profiler.ranges import range as named_range
from kernellab.profiler.steps import step as end_step
from kernellab.profiler.tool_capture import ToolCapture
from kernellab.workloads.mlp_setup import FIRST_CAPTURED_STEP, MlpSetup

_DATASET_BATCHES = 8


class MLP(torch.nn.Module):
    """`num_layers` times Linear(dim, dim) → GeLU, exact (by erf)."""

    def __init__(self, dim: int, num_layers: int) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(dim, dim) for _ in range(num_layers))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for number, layer in enumerate(self.layers):
            with named_range(f"layer_{number}"):
                x = functional.gelu(layer(x))
        return x


@dataclass(frozen=True)
class TrainingResult:
    """The result of training. `peak_bytes`: on a GPU, memory allocated by torch; on the CPU, memory of the process."""

    loss: float
    seconds: float
    num_steps: int
    peak_bytes: int
    device: str

    @property
    def step_us(self) -> float:
        return 1e6 * self.seconds / self.num_steps

    def to_json(self) -> TrainingJson:
        return {
            "loss": self.loss,
            "seconds": self.seconds,
            "num_steps": self.num_steps,
            "peak_bytes": self.peak_bytes,
            "device": self.device,
        }


def run_mlp(dim: int, num_layers: int, batch_size: int, num_steps: int, use_optimizer: bool = False) -> TrainingResult:
    """Train the MLP for some steps on one random batch, on the GPU if there is one; with Adam or without optimizer."""
    return train(MlpSetup(dim, num_layers, batch_size, num_steps, "adam" if use_optimizer else "none"))


def train(setup: MlpSetup) -> TrainingResult:
    setup.validate(capturing=session.current() is None and nvidia_tool_attached())
    device = _device(setup.device)
    on_gpu = device.type == "cuda"
    if on_gpu:
        torch.cuda.set_device(device)
        torch.cuda.reset_peak_memory_stats(device)
    with named_range("define_model"):
        model = _replicate(MLP(setup.dim, setup.layers).to(device), device)
        optimizer = _optimizer(setup.optimizer, model)
        scheduler = _scheduler(setup, optimizer)
    with named_range("define_input"):
        batches = _batches(setup, device)
    loss = torch.zeros(())
    began = time.perf_counter()
    # A profiling session has a schedule; NVIDIA's tools start recording on a call.
    with ToolCapture(enabled=on_gpu and session.current() is None) as capture:
        for number in range(setup.steps):
            if number == FIRST_CAPTURED_STEP:
                capture.begin()
            with named_range(f"step_{number}"):
                loss = _train_step(model, optimizer, scheduler, batches)
            end_step()
        if on_gpu:
            torch.cuda.synchronize(device)
    seconds = time.perf_counter() - began
    peak_bytes = torch.cuda.max_memory_allocated(device) if on_gpu else _process_peak_bytes()
    return TrainingResult(float(loss), seconds, setup.steps, peak_bytes, str(device))


def _train_step(
    model: torch.nn.Module,
    optimizer: torch.optim.Optimizer | None,
    scheduler: LRScheduler | None,
    batches: Iterator[torch.Tensor],
) -> torch.Tensor:
    if optimizer is not None:
        optimizer.zero_grad()
    else:
        model.zero_grad(set_to_none=True)
    x = next(batches)
    with named_range("forward"):
        loss: torch.Tensor = model(x).mean()
    with named_range("backward"):
        loss.backward()
    if optimizer is not None:
        with named_range("optimizer_step"):
            optimizer.step()
            if scheduler is not None:
                scheduler.step()
    return loss.detach()


def _device(requested: str) -> torch.device:
    if requested.startswith("cuda") and (torch.device(requested).index or 0) >= torch.cuda.device_count():
        raise UserError(f"--device {requested}: torch finds {torch.cuda.device_count()} NVIDIA GPUs here")
    if requested != "auto":
        return torch.device(requested)
    local = int(os.environ.get("LOCAL_RANK", 0))
    return torch.device("cuda", local) if torch.cuda.device_count() > local else torch.device("cpu")


def _replicate(model: torch.nn.Module, device: torch.device) -> torch.nn.Module:
    """Under torchrun, one of several replicas whose gradients are averaged; otherwise the model itself."""
    if int(os.environ.get("WORLD_SIZE", 1)) == 1:
        return model
    if not torch.distributed.is_initialized():
        torch.distributed.init_process_group("nccl" if device.type == "cuda" else "gloo")
    from torch.nn.parallel import DistributedDataParallel

    return DistributedDataParallel(model, device_ids=[device.index] if device.type == "cuda" else None)


def _optimizer(name: str, model: torch.nn.Module) -> torch.optim.Optimizer | None:
    kinds = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW, "sgd": torch.optim.SGD}
    return kinds[name](model.parameters(), lr=1e-3) if name != "none" else None


def _scheduler(setup: MlpSetup, optimizer: torch.optim.Optimizer | None) -> LRScheduler | None:
    """The learning rate over the steps: constant, falling by a cosine, or rising over the first tenth."""
    if optimizer is None or setup.rate == "constant":
        return None
    if setup.rate == "cosine":
        return CosineAnnealingLR(optimizer, setup.steps)
    return LinearLR(optimizer, 0.1, 1.0, max(1, setup.steps // 10))


def _batches(setup: MlpSetup, device: torch.device) -> Iterator[torch.Tensor]:
    """The same batch repeatedly, or batches of a data loader, without end."""
    if not setup.data:
        x = torch.randn(setup.batch, setup.dim, device=device)
        return iter(lambda: x, None)
    rows = torch.randn(_DATASET_BATCHES * setup.batch, setup.dim)
    loader = DataLoader(
        TensorDataset(rows),
        batch_size=setup.batch,
        shuffle=True,
        num_workers=setup.workers,
        persistent_workers=setup.workers > 0,
        pin_memory=device.type == "cuda",
    )
    return _load(loader, device)


def _load(loader: DataLoader[tuple[torch.Tensor, ...]], device: torch.device) -> Iterator[torch.Tensor]:
    """The batches of one epoch after the other, on the device."""
    while True:
        batches = iter(loader)
        while True:
            with named_range("load_batch"):
                batch = next(batches, None)
                if batch is None:
                    break
                x = batch[0].to(device, non_blocking=True)
            yield x


def _process_peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
