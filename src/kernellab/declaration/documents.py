"""The JSON of cases and costs, as records hold it."""

from __future__ import annotations

from typing import Annotated, NotRequired, TypedDict

from kernellab.base.json import JsonObject


class CaseJson(TypedDict):
    """One point of a sweep."""

    dims: Annotated[dict[str, int | list[int]], "sizes by name; `...` is a list"]
    dtype: Annotated[str, "of the inputs"]
    options: Annotated[JsonObject, "the op's options by name"]
    layout: Annotated[str, "of the inputs, `contiguous`"]
    device: Annotated[str, "`cpu` or `cuda`"]


class CostJson(TypedDict):
    """The fewest bytes and the operations of a pass."""

    bytes_read: Annotated[int, "bytes that must be read"]
    bytes_written: Annotated[int, "bytes that must be written"]
    flops: Annotated[dict[str, float], "operations by unit: `fp32`, `matmul`, …"]
    assumed: NotRequired[Annotated[bool, "true where the op declares no cost: every tensor is moved once"]]


class PeerLibraryJson(TypedDict):
    """Another library whose kernels were asked for, with `--peers` or by name."""

    package: Annotated[str, "what pip installs"]
    version: Annotated[str | None, "null where it is not installed"]
    problem: Annotated[str | None, "which module is missing, and how to install it"]


class RequestJson(TypedDict):
    """The cases that a command asks for. Empty fields mean the op's own."""

    shapes: list[list[int]]
    dtypes: list[str]
    dims: dict[str, list[int]]
    options: dict[str, list[str]]
    quick: bool
