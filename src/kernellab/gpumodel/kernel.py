"""One kernel of an implementation: its launch, and what is known of its machine code. Plain data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kernellab.base.json import JsonValue

# Classes of instructions, as in `machinecode.instruction_classes`.
GLOBAL_LOADS = ("global_load", "async_copy")
LOCAL_ACCESSES = ("local_load", "local_store")
SHARED_ACCESSES = ("shared_load", "shared_store")
MULTIPLY_ADDS = ("fp32", "fp16")
_TENSOR_PRODUCTS = ("tensor_mma", "tensor_wgmma", "tensor_tcgen05")

# sin, cos and tan have a table of digits of pi in local memory: 32 bytes in float, 40 in double. Only huge arguments
# use it, so a stack of up to this size costs nothing.
TRIGONOMETRY_STACK_BYTES = 40


@dataclass(frozen=True)
class Kernel:
    """A launch, and the facts of its code. None, 0 or empty means not known. `klab explain --json` has these fields."""

    name: str
    times: int  # launches per call of the implementation
    blocks: int
    threads: int  # per block
    kind: str = ""  # triton or cuda. Triton's compiler distributes a tile over threads; in CUDA C++ the author does
    config: Mapping[str, JsonValue] = field(default_factory=dict)  # chosen by the author or a tuner
    tuned: Sequence[int] | None = None  # index of its configuration and number of configurations of its tuner
    registers: int | None = None  # per thread
    shared_bytes: int | None = None  # per block
    spill_bytes: int | None = None  # per thread
    flight_bytes: int = 0  # requested from memory by one thread before it waits
    sectors: float | None = None  # 32-byte sectors touched by a warp's accesses, relative to the minimum
    conflicts: float | None = None  # shared-memory transactions of a warp's accesses, relative to the minimum
    shared_goes: float = 1.0  # the fewest shared-memory transactions per access, on average
    stack_bytes: int = 0  # local memory per thread
    local_bytes: int = 0  # moved to and from local memory by one pass through the code
    instructions: Mapping[str, int] = field(default_factory=dict)  # in the code, by class
    executed: Mapping[str, int] = field(default_factory=dict)  # with loops of constant length repeated
    loop: Mapping[str, int] | None = None  # one iteration of the innermost loop that loads
    unknown_turns: Mapping[str, int] = field(default_factory=dict)  # one iteration of loops of unknown length
    once_loops: int = 0  # loops of unknown length that load nothing: the model counts one iteration
    loading_loops: int = 0  # loops with loads, each from other source lines
    load_bytes: float = 0.0  # width of a global load in the hot code, on average
    widest_bytes: int = 0  # widest global load, or store if nothing is loaded
    blocks_per_sm: int | None = None
    occupancy: float | None = None
    limiter: str = ""  # what limits the occupancy
    remedy: str = ""  # what would raise the occupancy, or lift the refusal
    refusal: str = ""  # why CUDA would not launch it
    products: Sequence[str] = ()  # operand types of its tensor-core instructions: bf16, tf32
    product_flops: int = 0  # operations per thread of one such instruction; 0 if they differ
    l1_bytes: int = 0
    pointer_bytes: int | None = None  # size of its tensor arguments

    @property
    def all_threads(self) -> int:
        return self.blocks * self.threads

    @property
    def hot_code(self) -> Mapping[str, int]:
        """The instructions that decide its time: one iteration of the loop that loads, or all if there is none."""
        return self.loop or self.executed or self.instructions

    @property
    def on_tensor_cores(self) -> bool:
        return count(self.instructions, _TENSOR_PRODUCTS) > 0

    def warps(self, warp_threads: int) -> int:
        """The number of warps in all its launches."""
        return self.blocks * -(-self.threads // warp_threads) * self.times


def count(code: Mapping[str, int], classes: Sequence[str]) -> int:
    """The number of instructions of these classes."""
    return sum(code.get(name, 0) for name in classes)
