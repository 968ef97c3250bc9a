"""A training loop with one mistake, and without it: a program in which `klab profile` is to find the mistake.

    python benchmarks/slowed_mlp.py VARIANT [--mended] [--steps 60]
    klab profile benchmarks/slowed_mlp.py -- VARIANT

Plain PyTorch, without kernellab. Prints milliseconds per step, without the first third of the steps.
"""

from __future__ import annotations

import argparse
import math
import time

import torch
from torch import nn

VARIANTS = ("print_loss", "tiny_batch", "unfused_gelu", "blocking_copy", "starving_loader")


class UnfusedGelu(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        inner = math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)
        return 0.5 * x * (1 + torch.tanh(inner))


class Samples(torch.utils.data.Dataset):
    """Batches made on the CPU on request, which takes long, as decoding images does."""

    def __init__(self, batch: int, dim: int, count: int) -> None:
        self.batch, self.dim, self.count = batch, dim, count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> torch.Tensor:
        drawn = torch.randn(self.batch, self.dim, generator=torch.Generator().manual_seed(index))
        return drawn.sort(dim=-1).values


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("variant", choices=VARIANTS)
    parser.add_argument("--mended", action="store_true", help="the same without the mistake")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--dim", type=int, default=1024)
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--batch", type=int, default=3072)
    args = parser.parse_args()
    flawed = None if args.mended else args.variant
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.manual_seed(0)
    batch = 16 if args.variant == "tiny_batch" else args.batch
    gelu = UnfusedGelu() if flawed == "unfused_gelu" else nn.GELU(approximate="tanh")
    layers = [part for _ in range(args.layers) for part in (nn.Linear(args.dim, args.dim), gelu)]
    model = nn.Sequential(*layers).to(device)
    optimizer = torch.optim.Adam(model.parameters(), capturable=device.type == "cuda" and args.variant == "tiny_batch")
    fixed = torch.randn(batch, args.dim, device=device)
    loader = iter(torch.utils.data.DataLoader(Samples(batch, args.dim, args.steps), batch_size=None))
    kept = []

    def train(x: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad(set_to_none=False)
        y = model(x)
        loss = y.mean()
        loss.backward()
        optimizer.step()
        if flawed == "blocking_copy":
            kept[:] = [y.detach().cpu()]
        return loss

    step = captured(train, fixed) if args.mended and args.variant == "tiny_batch" else train
    began, first = 0.0, args.steps // 3
    for number in range(args.steps):
        if number == first:
            settle(device)
            began = time.perf_counter()
        x = next(loader).to(device) if flawed == "starving_loader" else fixed
        loss = step(x)
        if flawed == "print_loss":
            print(f"step {number}: {loss.item():.6f}")
    settle(device)
    print(f"{1000 * (time.perf_counter() - began) / (args.steps - first):.4f} ms per step")


def captured(train, x: torch.Tensor):
    """A step as one CUDA graph: a single launch for all its kernels."""
    if not x.is_cuda:
        return train
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            train(x)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = train(x)

    def replay(_: torch.Tensor) -> torch.Tensor:
        graph.replay()
        return loss

    return replay


def settle(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


if __name__ == "__main__":
    main()
