"""What one launch of a kernel was: plain data, the same for Triton and CUDA C++. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

Dims = tuple[int, int, int]


@dataclass(frozen=True)
class Parameter:
    """An argument of a kernel. `special` says what the compiler was allowed to assume of it."""

    name: str
    type: str
    value: str
    special: str = ""
    bytes: int | None = None  # of the tensor a pointer is given for


@dataclass(frozen=True)
class Source:
    """A piece of source text and where it stands."""

    name: str
    file: str
    first_line: int
    text: str


@dataclass(frozen=True)
class Launch:
    """A kernel as it was launched, and the code that would have run.

    `grid` counts blocks, also where they come in clusters. `code` has one entry per level: ttir, ttgir, llir and
    ptx as text, cubin as bytes; it is empty where `refusal` says why there is none. `config` is what the author
    or a tuner chose: warps, stages and constexprs in Triton, template and macros in CUDA C++.
    """

    kind: str  # "triton" or "cuda"
    kernel: str
    symbol: str  # the kernel's name in the binary
    arch: str
    gpu: str  # the one that answered what the author's code asked of its device
    grid: Dims
    block: Dims
    cluster: Dims
    shared_bytes: int  # dynamic: given with the launch
    config: Mapping[str, Any]
    parameters: tuple[Parameter, ...]
    sources: tuple[Source, ...]  # the kernel's own first, then what it calls or includes
    code: Mapping[str, str | bytes] = field(repr=False)
    build_s: float  # 0 where it was compiled before
    tuned: tuple[int, int] | None = None  # which of an autotuner's configurations this is, and of how many
    refusal: str = ""
    times: int = 1  # launches like this one

    @property
    def threads(self) -> int:
        return self.block[0] * self.block[1] * self.block[2]

    @property
    def blocks(self) -> int:
        return self.grid[0] * self.grid[1] * self.grid[2]

    def to_json(self) -> dict[str, Any]:
        """Everything but the code, whose place is in files."""
        return {k: v for k, v in asdict(self).items() if k != "code"}
