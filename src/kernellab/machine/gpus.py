"""The database of NVIDIA's GPUs by product: SMs, clocks, memory and caches, each with its source (gpus.toml).

The driver describes a GPU that is present; this database describes the others.
"""

from __future__ import annotations

import difflib
import functools
import re
import tomllib
from dataclasses import dataclass, field, replace
from pathlib import Path

from kernellab.base.errors import UserError
from kernellab.machine.chips import Chip, chip

# Dtypes with accumulation in fp32. GeForce boards multiply them at half the rate of the architecture's other products.
_FP32_ACCUMULATED = ("fp16", "bf16", "tf32", "fp8")


@dataclass(frozen=True)
class Source:
    title: str
    url: str = ""


@dataclass(frozen=True)
class Gpu:
    """One product. `stated_*` is what the vendor says; `pin_gbps` and `fp32_tflops` are computed from the facts."""

    name: str
    family: str
    arch: str
    sms: int
    boost_mhz: int
    memory_gb: float
    memory_kind: str
    bus_bits: int
    pin_gbit: float  # Gbit/s of one data pin
    stated_gbps: float
    sources: tuple[Source, ...]
    stated_fp32_tflops: float | None = None
    aliases: tuple[str, ...] = ()
    l2_bytes: int | None = None
    tdp_w: int | None = None
    note: str = ""
    halved: tuple[str, ...] = ()  # dtypes whose tensor rate is half of the architecture's
    second: dict[str, float] = field(default_factory=dict, hash=False)  # values of another source, by field name
    second_source: Source | None = None

    @property
    def chip(self) -> Chip:
        """The chip of the architecture, at this product's tensor rates."""
        base = chip(self.arch)
        half = {*self.halved, *(_FP32_ACCUMULATED if self.name.startswith("GeForce") else ())}
        rates = {dtype: rate // 2 if dtype in half else rate for dtype, rate in base.tensor_per_clock.items()}
        return replace(base, tensor_per_clock=rates) if half else base

    @property
    def pin_gbps(self) -> float:
        """Memory bandwidth in GB/s: bus width times the rate of one pin."""
        return self.bus_bits * self.pin_gbit / 8

    @property
    def fp32_tflops(self) -> float:
        return self.sms * self.chip.fp32_per_clock * self.boost_mhz / 1e6

    def tensor_tflops(self, dtype: str) -> float | None:
        """Dense products on the tensor cores at the boost clock. As in PyTorch, floats are accumulated in fp32.

        None if the architecture has no rate for the dtype.
        """
        rate = self.chip.tensor_per_clock.get(dtype)
        return None if rate is None else self.sms * rate * self.boost_mhz / 1e6


def gpu(name: str) -> Gpu:
    """The product of this name, as people write it: `a100`, `A100-SXM4-80GB`, `rtx 4090`, `NVIDIA H200`.

    A family's name means its common variant; `variants` lists the others.
    """
    wanted = _normalise(name)
    for product in gpus():
        if wanted in _names(product):
            return product
    for product in gpus():
        if wanted == _normalise(product.family):
            return product
    candidates = [product for product in gpus() if _is_prefix(_normalise(product.name), wanted)]
    if candidates and len({product.family for product in candidates}) == 1:
        return candidates[0]
    names = {_normalise(text): text for product in gpus() for text in (product.name, product.family)}
    matches = [names[text] for text in difflib.get_close_matches(wanted, names, n=3, cutoff=0.7)]
    hint = f"did you mean {' or '.join(matches)}?" if matches else "klab device --list shows all"
    raise UserError(f"no GPU {name!r} in the database: {hint}")


def same_product(name: str, other: str) -> bool:
    """Whether two names, in the user's or the driver's spelling, mean one product. Unknown names must be equal."""
    try:
        return gpu(name) == gpu(other)
    except UserError:
        return name == other


def gpus() -> list[Gpu]:
    """Every product in the database, oldest architecture first."""
    return list(_database())


def variants(name: str) -> list[Gpu]:
    """The other products that `name` could mean; none if it names one exactly."""
    product = gpu(name)
    if _normalise(name) in _names(product):
        return []
    return [other for other in gpus() if other.family == product.family and other.name != product.name]


def _is_prefix(name: str, wanted: str) -> bool:
    """Whether a name begins with `wanted` and does not continue its last number: H20 does not mean H200."""
    rest = name[len(wanted) :]
    return bool(wanted) and name.startswith(wanted) and not (wanted[-1:].isdigit() and rest[:1].isdigit())


def _names(product: Gpu) -> set[str]:
    return {_normalise(text) for text in (product.name, *product.aliases)}


def _normalise(name: str) -> str:
    """Letters and digits only, without the brand: `NVIDIA A100-SXM4-80GB` and `a100 sxm4 80gb` become the same."""
    return re.sub(r"nvidia|geforce|quadro|tesla|rtx|[^a-z0-9]", "", name.lower())


@functools.cache
def _database() -> tuple[Gpu, ...]:
    tables = tomllib.loads((Path(__file__).parent / "gpus.toml").read_text())
    sources = {key: Source(**value) for key, value in tables["sources"].items()}
    products = []
    for entry in tables["gpu"]:
        l2_mb, second = entry.pop("l2_mb", None), entry.pop("second", {})
        second_source = second.pop("source", None)
        products.append(
            Gpu(
                sources=tuple(sources[key] for key in entry.pop("sources")),
                aliases=tuple(entry.pop("aliases", ())),
                halved=tuple(entry.pop("halved", ())),
                l2_bytes=None if l2_mb is None else int(l2_mb * 2**20),
                second=second,
                second_source=sources[second_source] if second_source else None,
                **entry,
            )
        )
    return tuple(products)
