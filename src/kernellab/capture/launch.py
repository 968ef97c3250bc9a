"""A captured launch of a kernel as plain data, the same for Triton and CUDA C++. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kernellab.base.json import JsonValue

Dims = tuple[int, int, int]


@dataclass(frozen=True)
class Parameter:
    """An argument of a kernel. `special` names the compiler's assumptions about it."""

    name: str
    type: str
    value: str
    special: str = ""
    bytes: int | None = None  # size of the tensor, for a pointer; 0 where an earlier argument is the same tensor


@dataclass(frozen=True)
class Source:
    """A piece of source text and its place in a file."""

    name: str
    file: str
    first_line: int
    text: str


@dataclass(frozen=True)
class Launch:
    """A kernel as it was launched, and its code.

    `grid` counts blocks, also for clusters. `code` has one entry per level: ttir, ttgir, llir and ptx as text, cubin as
    bytes. It is empty if the kernel was not compiled; `refusal` then has the reason. `config` is what the author or a
    tuner chose: warps, stages and constexprs in Triton, template and macros in CUDA C++.
    """

    kind: str  # "triton" or "cuda"
    kernel: str
    symbol: str  # the kernel's name in the binary
    arch: str
    gpu: str  # the product whose properties the author's code saw
    grid: Dims
    block: Dims
    cluster: Dims
    shared_bytes: int  # dynamic shared memory of the launch
    config: Mapping[str, JsonValue]
    parameters: tuple[Parameter, ...]
    sources: tuple[Source, ...]  # the kernel's own first, then the functions it calls or includes
    code: Mapping[str, str | bytes] = field(repr=False)
    build_s: float  # 0 if it was compiled before
    tuned: tuple[int, int] | None = None  # which of an autotuner's configurations this is, and how many there are
    refusal: str = ""
    times: int = 1  # number of identical launches

    @property
    def threads(self) -> int:
        return self.block[0] * self.block[1] * self.block[2]

    @property
    def blocks(self) -> int:
        return self.grid[0] * self.grid[1] * self.grid[2]

    @property
    def source_text(self) -> str:
        """All sources in one text, an empty line between two."""
        return "\n\n".join(source.text.rstrip("\n") for source in self.sources) + "\n"

    @property
    def source_lines(self) -> list[int]:
        """The line of `source_text` where each source begins."""
        lengths = [source.text.rstrip("\n").count("\n") + 2 for source in self.sources]
        return [1 + sum(lengths[:number]) for number in range(len(lengths))]

    @property
    def constants(self) -> Mapping[str, JsonValue]:
        """Triton's constexprs."""
        constants = self.config.get("constexprs")
        return constants if isinstance(constants, dict) else {}

    @property
    def cubin(self) -> bytes | None:
        cubin = self.code.get("cubin")
        return cubin if isinstance(cubin, bytes) else None
