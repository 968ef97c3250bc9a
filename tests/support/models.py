"""A small transformer with every module of kernellab.nn in it."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import kernellab as kl

WIDTH, HEADS, POSITIONS, CLASSES = 16, 2, 6, 11


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = kl.nn.LayerNorm(WIDTH)
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.rotation = kl.nn.RotaryEmbedding(WIDTH // HEADS, POSITIONS)
        self.softmax = kl.nn.Softmax(dim=-1)
        self.add_norm = kl.nn.AddRMSNorm(WIDTH)
        self.up = nn.Linear(WIDTH, 2 * WIDTH)
        self.swiglu, self.geglu = kl.nn.SwiGLU(), kl.nn.GEGLU("tanh")

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (t.unflatten(-1, (HEADS, -1)).transpose(1, 2) for t in self.qkv(self.norm(x)).chunk(3, -1))
        q, k = self.rotation(q, k)
        attended = (self.softmax(q @ k.transpose(-1, -2)) @ v).transpose(1, 2).flatten(-2)
        normed, total = self.add_norm(attended, x)
        gate, up = self.up(normed).chunk(2, -1)
        return total + self.swiglu(gate, up) + self.geglu(up, gate)


class Model(nn.Module):
    def __init__(self, blocks: int = 2) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(blocks))
        self.norm = kl.nn.RMSNorm(WIDTH)
        self.gelu, self.silu = kl.nn.GELU(), kl.nn.SiLU()
        self.widen = kl.nn.LinearGELU(WIDTH, WIDTH, approximate="tanh")
        self.head = nn.Linear(WIDTH, CLASSES)
        self.log_softmax = kl.nn.LogSoftmax(dim=-1)
        self.loss = kl.nn.CrossEntropyLoss(label_smoothing=0.1)

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x)
        x = self.norm(self.widen(self.gelu(x) + self.silu(x)))
        log_probabilities = self.log_softmax(self.head(x))  # their cross-entropy is that of the logits
        loss = self.loss(log_probabilities.flatten(0, -2), target.flatten())
        return loss + kl.functional.linear_cross_entropy(x.flatten(0, -2), self.head.weight, target.flatten())


def make_model() -> Model:
    torch.manual_seed(0)
    return Model()


def make_batch(size: int = 2, seed: int = 1) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(size, POSITIONS, WIDTH, generator=generator)
    return x, torch.randint(0, CLASSES, (size, POSITIONS), generator=generator)


def gradients(model: nn.Module, *batch: Tensor) -> dict[str, Tensor]:
    """The gradients of the loss, by the names of parameters."""
    model.zero_grad()
    model(*batch).backward()
    return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
