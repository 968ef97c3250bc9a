"""A model written as many are: norms, activations and MLPs of its own, and calls of torch.nn.functional."""

from __future__ import annotations

import functools
import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

WIDTH, HEADS, CLASSES = 16, 2, 11


class OwnRMSNorm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(WIDTH))
        self.variance_epsilon = 1e-6

    def forward(self, x: Tensor) -> Tensor:
        wide = x.float()
        return self.weight * (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.variance_epsilon)).to(
            x.dtype
        )


class ShiftedRMSNorm(OwnRMSNorm):
    """Multiplies by 1 + weight: another function, though it has the same attributes."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) * (1 + self.weight) / self.weight


class OwnGELU(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x.pow(3))))


class GatedMLP(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gate_proj, self.up_proj = nn.Linear(WIDTH, 24), nn.Linear(WIDTH, 24)
        self.down_proj, self.act_fn = nn.Linear(24, WIDTH), nn.SiLU()

    def forward(self, x: Tensor) -> Tensor:
        return self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))


def rotate_half(x: Tensor) -> Tensor:
    first, second = x.chunk(2, -1)
    return torch.cat((-second, first), -1)


def apply_rotary_pos_emb(
    q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, unsqueeze_dim: int = 1
) -> tuple[Tensor, Tensor]:
    cos, sin = cos.unsqueeze(unsqueeze_dim), sin.unsqueeze(unsqueeze_dim)
    return q * cos + rotate_half(q) * sin, k * cos + rotate_half(k) * sin


def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return F.softmax(q @ k.transpose(-1, -2), dim=-1) @ v


def decorated(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        return function(*args, **kwargs)

    return wrapper


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)

    @decorated
    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (t.unflatten(-1, (HEADS, -1)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        angles = torch.arange(x.shape[1], dtype=x.dtype)[None, :, None] / torch.arange(1, 1 + WIDTH // HEADS // 2)
        angles = torch.cat((angles, angles), -1)
        q, k = apply_rotary_pos_emb(q, k, angles.cos(), angles.sin())
        return attend(q, k, v).transpose(1, 2).flatten(-2)


class FusedAttention(nn.Module):
    """By PyTorch's function, with grouped heads."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.kv = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        q, (k, v) = self.q(x).unflatten(-1, (2 * HEADS, -1)), self.kv(x).unflatten(-1, (2, HEADS, -1)).unbind(-3)
        q, k, v = (t.transpose(1, 2) for t in (q, k, v))
        return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True).transpose(1, 2).flatten(-2)


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norms = nn.ModuleList([nn.LayerNorm(WIDTH), OwnRMSNorm(), ShiftedRMSNorm()])
        self.attention, self.mlp, self.gelu = Attention(), GatedMLP(), OwnGELU()
        self.head = nn.Linear(WIDTH, CLASSES)

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        x = x + self.attention(self.norms[0](x))
        x = x + self.mlp(self.norms[1](x))
        x = self.gelu(self.norms[2](x))
        return torch.nn.functional.cross_entropy(self.head(x).flatten(0, -2), target.flatten())
