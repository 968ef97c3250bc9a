"""Which sizes serve attention of few queries best: tiles, splits, warps and stages of `triton-decode` on this GPU.

    python benchmarks/attention_decode.py [--quick]

Keys and values of every case are larger than the L2 cache, so that warm calls read memory as a model does. Results of
every candidate are compared with those of PyTorch. The constants to change are in ops/attention/decode.py; the verdict
against PyTorch's backends is that of

    klab bench attention --impl triton,triton-decode,torch,torch-flash,torch-cudnn --pass forward \\
        --B 16 --H 32 --Hk 8 --Sq 1 --Sk 8192 --D 128
"""

from __future__ import annotations

import argparse
import functools
import itertools
import sys
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))

import kernellab as kl
from kernellab.ops.attention import decode

# batch, heads, groups, queries, keys, columns
SIZES = (
    (16, 32, 8, 1, 8192, 128),
    (1, 32, 8, 1, 131072, 128),
    (64, 32, 32, 1, 1024, 128),
    (8, 64, 8, 4, 16384, 64),
    (4, 16, 1, 16, 65536, 256),
)
CANDIDATES = {
    "TILE_BYTES": (8 << 10, 16 << 10, 32 << 10),
    "PROGRAMS_PER_SM": (1, 2, 4, 8),
    "WARPS": (2, 4, 8),
    "STAGES": (2, 3, 4),
}
TRIALS = 20


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="change one constant at a time")
    args = parser.parse_args()
    chosen = {name: getattr(decode, name) for name in CANDIDATES}
    candidates = [dict(zip(CANDIDATES, values, strict=True)) for values in itertools.product(*CANDIDATES.values())]
    if args.quick:
        candidates = [c for c in candidates if sum(c[name] != chosen[name] for name in chosen) <= 1]
    wrong = 0
    for size in SIZES:
        q, k, v = make(size)
        read = 2 * k.numel() * k.element_size()
        expected = kl.ops.attention["torch"](q, k, v)
        print(f"{size}: {read / 1e6:.0f} MB of keys and values")
        for impl in ("torch", "triton"):
            print(f"  {impl}: {rate(timed(impl, q, k, v), read)}")
        results = []
        for candidate in candidates:
            for name, value in candidate.items():
                setattr(decode, name, value)
            try:
                y = kl.ops.attention["triton-decode"](q, k, v)
            except Exception as error:  # too much shared memory, for example
                print(f"  {candidate}: {type(error).__name__}: {str(error).splitlines()[0]}")
                continue
            if not torch.allclose(y, expected, rtol=2e-2, atol=2e-3):
                print(f"  {candidate}: wrong")
                wrong += 1
                continue
            results.append((timed("triton-decode", q, k, v), candidate))
        for median_ms, candidate in sorted(results, key=lambda result: result[0])[:5]:
            print(f"  {rate(median_ms, read)}: {candidate}")
        ours = [ms for ms, candidate in results if candidate == chosen]
        print(f"  as it is: {rate(ours[0], read) if ours else 'does not run'}", flush=True)
    return 1 if wrong else 0


def make(size: tuple[int, ...]) -> list[torch.Tensor]:
    batch, heads, groups, queries, keys, columns = size
    shapes = (batch, heads, queries, columns), *[(batch, groups, keys, columns)] * 2
    return [torch.randn(shape, device="cuda", dtype=torch.bfloat16) for shape in shapes]


def timed(impl: str, *inputs: torch.Tensor) -> float:
    """The median in milliseconds."""
    run = functools.partial(kl.ops.attention[impl], *inputs)
    return kl.benchmark(impl, run, num_warmups=3, num_trials=TRIALS, timer="events", count=False).median_ms


def rate(median_ms: float, read: int) -> str:
    return f"{median_ms * 1e3:.1f} µs, {read / median_ms / 1e6:.0f} GB/s"


if __name__ == "__main__":
    sys.exit(main())
