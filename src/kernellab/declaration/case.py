"""Cases: the points of a sweep. Imports no torch.

A case binds every named dim of an op to a size, picks a dtype and fixes the options. The dim written `...` stands for
any number of leading dims; it binds a tuple.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kernellab.base.errors import UserError, nearest
from kernellab.base.json import JsonValue
from kernellab.declaration.documents import CaseJson

ELLIPSIS = "..."
CONTIGUOUS = "contiguous"
DTYPES = ("float32", "float16", "bfloat16", "float64")
DTYPE_SHORT = {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16", "fp64": "float64", "half": "float16"}
DEVICES = ("cpu", "cuda")

Size = int | tuple[int, ...]


@dataclass(frozen=True)
class Case:
    """One point: sizes, dtype, options, layout, device type. Dims and options read as attributes."""

    dims: Mapping[str, Size]
    dtype: str
    options: Mapping[str, object] = field(default_factory=dict)
    layout: str = CONTIGUOUS
    device: str = "cpu"

    # Any: `where=` and `supports=` compare sizes and option values with numbers and strings.
    def __getattr__(self, name: str) -> Any:  # type: ignore[explicit-any]
        for table in ("dims", "options"):
            values = self.__dict__.get(table, {})
            if name in values:
                return values[name]
        raise AttributeError(f"the case has no dim or option {name!r}")

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of all dims in order, with those of `...` in its place."""
        return tuple(itertools.chain.from_iterable(s if isinstance(s, tuple) else (s,) for s in self.dims.values()))

    @property
    def contiguous(self) -> bool:
        """Whether every input is contiguous; `supports=` may ask."""
        return self.layout == CONTIGUOUS

    @property
    def size_label(self) -> str:
        if ELLIPSIS in self.dims:
            return "×".join(map(str, self.shape)) or "scalar"
        return " ".join(f"{name}={size}" for name, size in self.dims.items())

    @property
    def label(self) -> str:
        options = [f"{k}={v}" for k, v in self.options.items()]
        layout = [] if self.contiguous else [self.layout]
        return " · ".join([self.size_label, self.dtype, *options, *layout])

    def to_json(self) -> CaseJson:
        return {
            "dims": {name: list(s) if isinstance(s, tuple) else s for name, s in self.dims.items()},
            "dtype": self.dtype,
            "options": {name: jsonable(value) for name, value in self.options.items()},
            "layout": self.layout,
            "device": self.device,
        }

    @classmethod
    def from_json(cls, data: CaseJson) -> Case:
        dims = {name: tuple(s) if isinstance(s, list) else s for name, s in data["dims"].items()}
        return cls(dims, data["dtype"], dict(data["options"]), data["layout"], data["device"])

    @property
    def key(self) -> str:
        """An identity that is the same in every process."""
        return json.dumps(self.to_json(), sort_keys=True, separators=(",", ":"))

    def with_(
        self,
        *,
        dims: Mapping[str, Size] | None = None,
        dtype: str | None = None,
        options: Mapping[str, object] | None = None,
        layout: str | None = None,
        device: str | None = None,
    ) -> Case:
        """This case with some fields replaced."""
        return dataclasses.replace(
            self,
            dims=self.dims if dims is None else dims,
            dtype=dtype or self.dtype,
            options=self.options if options is None else options,
            layout=layout or self.layout,
            device=device or self.device,
        )


def parse_dtype(value: object) -> str:
    """The full name of a dtype: `bf16` is bfloat16."""
    dtype = DTYPE_SHORT.get(value, value) if isinstance(value, str) else str(value)
    if dtype not in DTYPES:
        raise UserError(f"no dtype {value!r}: {nearest(dtype, DTYPES)}")
    return dtype


def jsonable(value: object) -> JsonValue:
    """An option's value for JSON. Everything but a plain scalar becomes its repr."""
    if value is None or isinstance(value, (bool, int, str)) or (isinstance(value, float) and math.isfinite(value)):
        return value
    return repr(value)
