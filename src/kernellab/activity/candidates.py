"""What torch.compile tries for an operator with max-autotune: PyTorch's own kernel, and its Triton templates.

Nothing is tried, and nothing recorded, where Inductor has the compiled graph in its cache.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol

from kernellab.activity.documents import CandidateJson, TunedJson
from kernellab.base.json import JsonObject, JsonValue


class _Choice(Protocol):
    """The part that is used of `torch._inductor.ir.ChoiceCaller`."""

    name: str

    def info_dict(self) -> Mapping[str, object]: ...


class _Node(Protocol):
    """An input of the operator."""

    def get_size(self) -> Sequence[object]: ...
    def get_stride(self) -> Sequence[object]: ...
    def get_dtype(self) -> object: ...


@contextlib.contextmanager
def recording_candidates(record: Callable[[TunedJson], None]) -> Iterator[None]:
    from torch._inductor import select_algorithm

    def observe(
        times_ms: Mapping[_Choice, float], name: str, inputs: Sequence[_Node], choices: object, *more: object
    ) -> None:
        if times_ms:
            record(_describe(times_ms, name, inputs))

    select_algorithm.add_feedback_saver(observe)  # type: ignore[arg-type]  # it takes more arguments in some versions
    try:
        yield
    finally:
        selector = select_algorithm._ALGORITHM_SELECTOR_CACHE
        if selector is not None and observe in selector.feedback_saver_fns:
            selector.feedback_saver_fns.remove(observe)


def _describe(times_ms: Mapping[_Choice, float], name: str, inputs: Sequence[_Node]) -> TunedJson:
    ranked = sorted(times_ms, key=lambda choice: times_ms[choice])
    fastest = ranked[0]
    candidates: list[CandidateJson] = [
        {"name": choice.name, "us": 1e3 * times_ms[choice] if math.isfinite(times_ms[choice]) else None}
        for choice in ranked
    ]
    config: JsonObject = {"name": fastest.name, **{key: _scalar(v) for key, v in fastest.info_dict().items()}}
    return {
        "kernel": name,
        "file": "",
        "by": "inductor",
        "key": [_describe_input(node) for node in inputs],
        "config": config,
        "configs": len(times_ms),
        "tried": len(times_ms),
        "seconds": None,
        "candidates": candidates,
    }


def _describe_input(node: _Node) -> str:
    """`bfloat16 4096×4096, strides 4096 1`."""
    dtype = str(node.get_dtype()).removeprefix("torch.")
    return f"{dtype} {'×'.join(map(str, node.get_size()))}, strides {' '.join(map(str, node.get_stride()))}"


def _scalar(value: object) -> JsonValue:
    return value if isinstance(value, (bool, int, float, str)) or value is None else str(value)
