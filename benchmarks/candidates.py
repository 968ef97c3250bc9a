"""Are the candidates of benchmarks/candidates right on a Hopper GPU, and how fast in which configuration?

    python benchmarks/candidates.py OUT [--only matmul_wgmma,attention_gluon] [--checks-only] [--rounds 15]

Each candidate is checked first, at small sizes and in a process of its own that is ended after a minute: a kernel whose
barriers are wrong hangs. Those that are right are timed in several configurations, in rounds with cuBLAS or with the
backends of scaled_dot_product_attention, cold caches, random data. Every configuration is compared with the reference
before it is timed. A table is printed; OUT/candidates.json has all results. The exit code is 1 if a candidate is wrong,
and 3 without a Hopper GPU.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT / "src"), os.environ.get("PYTHONPATH")]))

FILES = ("matmul_wgmma", "matmul_gluon", "attention_wgmma", "attention_gluon")
IMPLS = {"wgmma": "cuda-wgmma", "gluon": "triton-gluon"}
CHECK_S, TIME_S = 90, 110  # seconds after which a process is ended
FLUSH_BYTES, SLEEP_CYCLES = 512 << 20, 600_000  # between calls: the cache is emptied, the host gets ahead
# A bfloat16 or float16 that is rounded once has these errors at most, as norms; PyTorch's own results are allowed more.
ALLOWED = {"bfloat16": 4e-3, "float16": 6e-4}
GRADIENT_FACTOR = 1.5  # P and the gradients of scores are rounded, too

# Configurations by file, as arguments of its Config; the first is compared with the others.
MATMUL = {
    "matmul_wgmma": [
        {},
        {"cluster": 1},
        {"group": 4},
        {"group": 16},
        {"stages": 3},
        {"stages": 3, "out_blocks": 4},
        {"rows": 256, "columns": 128},
        {"rows": 256, "columns": 128, "cluster": 1},
        {"columns": 192, "cluster": 1, "stages": 4},
        {"columns": 128, "stages": 6},
    ],
    "matmul_gluon": [{}, {"group": 4}, {"group": 16}, {"columns": 192, "stages": 4}, {"columns": 128, "stages": 4}],
}
ATTENTION = {
    "attention_wgmma": {
        128: [
            {},
            {"turns": False},
            {"slots": 5},
            {"keys": 160},
            {"keys": 176, "slots": 3},
            {"keys": 160, "turns": False},
            {"keys": 64, "slots": 6},
        ],
        64: [
            {"slots": 6},
            {"slots": 6, "turns": False},
            {"slots": 6, "consumers": 3},
            {"slots": 6, "consumers": 3, "turns": False},
            {"keys": 176, "slots": 6},
            {"keys": 192, "slots": 6},
        ],
    },
    "attention_gluon": {128: [{}, {"keys": 64, "slots": 6}], 64: [{"slots": 6}, {"keys": 64, "slots": 8}]},
}
PRODUCTS = [(4096, 4096, 4096), (8192, 8192, 8192), (8192, 14336, 4096), (8192, 4096, 14336), (16384, 4096, 4096)]
SHAPES = [(8, 32, 2048, 64), (2, 32, 8192, 64), (8, 16, 2048, 128), (2, 16, 8192, 128)]
CAUSAL = (None, "top_left")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path, metavar="OUT")
    parser.add_argument("--only", default=",".join(FILES), metavar="A,B", help="these files")
    parser.add_argument("--checks-only", action="store_true", help="time nothing")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--stage", help=argparse.SUPPRESS)  # of a child process: "check matmul_wgmma"
    args = parser.parse_args()
    if args.stage:
        return run_stage(args)
    if not has_hopper():
        print("candidates.py needs a Hopper GPU: there is none here", file=sys.stderr)
        return 3
    args.out.mkdir(parents=True, exist_ok=True)
    results: list[dict[str, Any]] = []
    for file in args.only.split(","):
        checks = run_child(args, f"check {file}", CHECK_S)
        results += checks
        wrong = [row for row in checks if not row["right"]]
        print(f"{file}: {len(checks) - len(wrong)} of {len(checks)} checks passed", flush=True)
        for row in wrong[:8]:
            print(f"  WRONG {row['what']}: {row['reason']}")
        if not args.checks_only and checks and not wrong:
            results += run_child(args, f"time {file}", TIME_S)
            print_table([row for row in results if row.get("file") == file and "us" in row])
        (args.out / "candidates.json").write_text(json.dumps(results, indent=1))
    return 1 if any(not row.get("right", True) for row in results) else 0


def has_hopper() -> bool:
    import torch

    return torch.cuda.is_available() and torch.cuda.get_device_capability() == (9, 0)


def run_child(args: argparse.Namespace, stage: str, seconds: float) -> list[dict[str, Any]]:
    """The rows that a process of its own writes, also those it has written before it hangs or dies."""
    file = args.out / f"{stage.replace(' ', '-')}.jsonl"
    file.unlink(missing_ok=True)
    command = [sys.executable, __file__, str(args.out), "--stage", stage, "--rounds", str(args.rounds)]
    reason, began = "", time.monotonic()
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds)
        if done.returncode:
            reason = "\n".join(done.stderr.strip().splitlines()[-6:])
    except subprocess.TimeoutExpired:
        reason = f"it did not end within {seconds} s: it hangs, or was slow to compile"
    rows = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    if reason:
        what = f"{stage}, after {len(rows)} rows"
        rows.append({"file": stage.split()[1], "what": what, "right": False, "reason": reason})
    print(f"{stage}: {time.monotonic() - began:.0f} s", flush=True)
    return rows


def print_table(rows: list[dict[str, Any]]) -> None:
    for case, of_case in itertools.groupby(rows, key=lambda row: row["case"]):
        ordered = sorted(of_case, key=lambda row: row["us"])
        print(f"  {case}")
        for row in ordered:
            print(f"    {row['us']:9.1f} µs ±{row['spread']:4.1%} {row['tflops']:6.0f} TFLOP/s  {row['who']}")


# In a process of its own -----------------------------------------------------------------------------------


def run_stage(args: argparse.Namespace) -> int:
    import torch

    verb, file = args.stage.split()
    torch.manual_seed(0)
    names = globals_of(file)
    if verb == "check":
        torch.use_deterministic_algorithms(True, warn_only=True)  # unwritten memory is NaN
        rows = (check_matmul if file.startswith("matmul") else check_attention)(file, names)
    else:
        compile_ahead(file, names)
        rows = (time_matmul if file.startswith("matmul") else time_attention)(file, names, args.rounds)
    with (args.out / f"{verb}-{file}.jsonl").open("w") as out:
        for row in rows:
            out.write(json.dumps({"file": file, **row}) + "\n")
            out.flush()
    return 0


def globals_of(file: str) -> dict[str, Any]:
    """What a file of candidates defines."""
    from kernellab.declaration.targets import load, resolve

    (op,) = load(resolve(str(ROOT / "benchmarks" / "candidates" / f"{file}.py"))).values()
    implementation = op[IMPLS[file.split("_")[1]]].fn
    return getattr(implementation, "passes", implementation).__globals__


def compile_ahead(file: str, names: dict[str, Any]) -> None:
    """Compile kernels in CUDA C++ several at a time: NVRTC takes up to three seconds for each."""
    import torch

    if file == "matmul_wgmma":
        layouts = [(True, False), (True, True), (False, False)]
        configs = [(names["Config"](**config), *flags) for config in MATMUL[file] for flags in layouts[:1]]
        configs += [(names["Config"](), *flags) for flags in layouts[1:]]
        kernels = [names["kernel"](torch.bfloat16, a, b, config) for config, a, b in configs]
    elif file == "attention_wgmma":
        kernels = [
            names["kernel"](torch.bfloat16, width, names["Config"](**config))
            for width, configs in ATTENTION[file].items()
            for config in configs
        ]
        kernels += [names["backward_kernel"](torch.bfloat16, width) for width in (64, 128)]
    else:
        return
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda kernel: kernel.compile("sm_90"), kernels))


def guarded(what: str, run: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """The row that `run` makes, or why it could not."""
    try:
        return {"what": what, **run()}
    except Exception as error:  # of one configuration: the others are tried, too
        return {"what": what, "right": False, "reason": f"{type(error).__name__}: {str(error)[:300]}"}


def compare(dtype: str, results: list[tuple[str, Any, Any, float]], repeated: bool = True) -> dict[str, Any]:
    """(name, result, exact result, factor of the allowed error)"""
    errors, reasons = {}, []
    for name, result, exact, factor in results:
        error = ((result.double() - exact).norm() / exact.norm().clamp(min=1e-30)).item()
        errors[name] = error
        if not error <= ALLOWED[dtype] * factor:
            reasons.append(f"error of {name} {error:.2e}, allowed {ALLOWED[dtype] * factor:.1e}")
    if not repeated:
        reasons.append("two calls differ")
    return {"right": not reasons, "reason": "; ".join(reasons), "errors": errors}


# Matmul ----------------------------------------------------------------------------------------------------


def operands(m: int, n: int, k: int, layout: str, dtype: str) -> tuple[Any, Any]:
    """`layout`: n for an operand whose rows are contiguous, t for one whose columns are."""
    import torch

    shapes = [(m, k), (k, n)]
    a, b = (
        torch.randn(shape[::-1], device="cuda").T if letter == "t" else torch.randn(shape, device="cuda")
        for shape, letter in zip(shapes, layout, strict=True)
    )
    kind = getattr(torch, dtype)
    return a.to(kind), b.to(kind)


def check_matmul(file: str, names: dict[str, Any]) -> Iterator[dict[str, Any]]:
    import torch

    sizes = [(64, 64, 64), (8, 8, 8), (200, 264, 136), (1000, 1032, 1096), (128, 4096, 4096), (2048, 2048, 2048)]
    cases = [(size, "nn", "bfloat16", {}) for size in sizes]
    cases += [((1000, 1032, 1096), layout, dtype, {}) for layout in ("nt", "tn", "tt") for dtype in ALLOWED]
    cases += [((2000, 1032, 1096), "nn", "bfloat16", config) for config in MATMUL[file][1:]]

    def check(size: Any, layout: str, dtype: str, config: Any) -> dict[str, Any]:
        a, b = operands(*size, layout, dtype)
        first, *again = (names["multiply"](a, b, names["Config"](**config)) for _ in range(4))
        same = all(torch.equal(first, c) for c in again)
        return compare(dtype, [("c", first, a.double() @ b.double(), 1.0)], same)

    for case in cases:
        yield guarded(" ".join(map(str, case)), lambda case=case: check(*case))


def time_matmul(file: str, names: dict[str, Any], rounds: int) -> Iterator[dict[str, Any]]:
    import torch

    best: dict[str, Any] = {}
    for number, ((m, n, k), layout) in enumerate(
        [*((size, "nn") for size in PRODUCTS), *((PRODUCTS[0], layout) for layout in ("nt", "tn"))]
    ):
        a, b = operands(m, n, k, layout, "bfloat16")
        # All configurations at two sizes, the best of the first elsewhere.
        configs = MATMUL[file] if number < 2 else [best]
        calls: dict[str, Callable[[], Any]] = {"cuBLAS": lambda a=a, b=b: torch.matmul(a, b)}
        for config in configs:
            made = names["Config"](**config)
            calls[f"{file} {config}"] = lambda a=a, b=b, made=made: names["multiply"](a, b, made)
        rows = list(timed(calls, f"{m}×{n}×{k} {layout}", 2 * m * n * k, rounds, lambda c: c))
        yield from rows
        if number == 0:
            ours = min((row for row in rows if row["who"] != "cuBLAS"), key=lambda row: row["us"])
            best = next(config for config in configs if ours["who"] == f"{file} {config}")


# Attention -------------------------------------------------------------------------------------------------


def inputs_of(batches: int, heads: int, kv_heads: int, queries: int, keys: int, columns: int, dtype: str) -> list[Any]:
    import torch

    kind = getattr(torch, dtype)
    q, upstream = torch.randn(2, batches, heads, queries, columns, device="cuda").to(kind)
    k = torch.randn(batches, kv_heads, keys, columns, device="cuda").to(kind)
    v = torch.randn(batches, keys, kv_heads, columns, device="cuda").to(kind).transpose(1, 2)
    return [q, k, v, upstream]


def check_attention(file: str, names: dict[str, Any]) -> Iterator[dict[str, Any]]:
    import torch

    import kernellab as kl

    shapes = [(1, 2, 2, 128, 128, 128), (1, 2, 1, 300, 500, 128), (2, 4, 2, 1023, 799, 64), (1, 2, 2, 2048, 2048, 128)]
    options: list[dict[str, Any]] = [{}, {"causal": "top_left"}, {"causal": "bottom_right", "window": 100}]
    cases = [(shape, dtype, option, None) for shape in shapes for option in options for dtype in ("bfloat16",)]
    cases += [(shapes[1], "float16", options[1], None)]
    for width, configs in ATTENTION[file].items():
        cases += [((1, 2, 2, 700, 900, width), "bfloat16", options[1], config) for config in configs[1:]]

    def check(shape: Any, dtype: str, option: Any, config: Any) -> dict[str, Any]:
        q, k, v, upstream = inputs_of(*shape, dtype)
        settings = names["Settings"](**option)
        configured = () if config is None else (names["Config"](**config),)
        y, lse = names["forward"](q, k, v, None, settings, *configured)
        same = torch.equal(y, names["forward"](q, k, v, None, settings, *configured)[0])
        exact = [x.double().requires_grad_() for x in (q, k, v)]
        expected = kl.ops.attention.reference(*exact, **option)
        results = [("y", y, expected.detach(), 1.0)]
        if "backward" in names and file.endswith("wgmma") and config is None:
            gradients = torch.autograd.grad(expected, exact, upstream.double())
            ours = names["backward"](upstream, q, k, v, None, y, lse, settings, [True] * 3)
            results += [(f"d{x}", ours[i], gradients[i], GRADIENT_FACTOR) for i, x in enumerate("qkv")]
        return compare(dtype, results, same)

    for case in cases:
        yield guarded(" ".join(map(str, case)), lambda case=case: check(*case))


def time_attention(file: str, names: dict[str, Any], rounds: int) -> Iterator[dict[str, Any]]:
    for shape, causal in itertools.product(SHAPES, CAUSAL):
        yield from time_shape(file, names, rounds, shape, causal)


def time_shape(
    file: str, names: dict[str, Any], rounds: int, shape: tuple[int, int, int, int], causal: str | None
) -> Iterator[dict[str, Any]]:
    import torch

    import kernellab as kl

    batches, heads, length, columns = shape
    q, k, v, upstream = inputs_of(batches, heads, heads, length, length, columns, "bfloat16")
    v = v.contiguous()
    settings = names["Settings"](causal)
    flops = 4 * batches * heads * length * length * columns // (1 if causal is None else 2)
    case = f"{batches}×{heads}×{length}×{columns} {'causal' if causal else 'full'}"
    others = {name: kl.ops.attention[name] for name in ("torch-cudnn", "torch-flash")}
    calls: dict[str, Callable[[], Any]] = {
        name: lambda impl=impl: impl(q, k, v, causal=causal) for name, impl in others.items()
    }
    for config in ATTENTION[file][columns]:
        made = names["Config"](**config)
        calls[f"{file} {config}"] = lambda made=made: names["forward"](q, k, v, None, settings, made)[0]
    yield from timed(calls, f"{case} forward", flops, rounds, lambda y: y)
    if file != "attention_wgmma":
        return
    wanted = [x.detach().requires_grad_() for x in (q, k, v)]
    calls = {}
    for name, impl in others.items():
        try:
            result = impl(*wanted, causal=causal)
        except RuntimeError as error:  # a backend that does not take the case; the forward pass has said so
            print(f"{name}: {error}", file=sys.stderr)
            continue
        calls[name] = lambda result=result: torch.autograd.grad(result, wanted, upstream, retain_graph=True)
    y, lse = names["forward"](q, k, v, None, settings)
    calls[file] = lambda: names["backward"](upstream, q, k, v, None, y, lse, settings, [True] * 3)
    yield from timed(calls, f"{case} backward", 5 * flops // 2, rounds, lambda gradients: gradients[0])


# Times -----------------------------------------------------------------------------------------------------


def timed(
    calls: dict[str, Callable[[], Any]], case: str, flops: int, rounds: int, result_of: Callable[[Any], Any]
) -> Iterator[dict[str, Any]]:
    """Medians of interleaved calls in random order. What gives another result than the first is not timed."""
    import torch

    flush = torch.empty(FLUSH_BYTES, dtype=torch.int8, device="cuda")
    expected = None
    right = []
    for who, call in calls.items():
        try:
            result = result_of(call()).float()
        except Exception as error:  # cuDNN, or a configuration, may refuse what others take
            yield {"what": f"{case} {who}", "right": False, "reason": f"{type(error).__name__}: {str(error)[:300]}"}
            continue
        expected = result if expected is None else expected
        off = ((result - expected).norm() / expected.norm()).item()
        if off < 2e-2:
            right.append(who)
        else:
            yield {"what": f"{case} {who}", "right": False, "reason": f"it is {off:.2e} off {next(iter(calls))}"}
    samples: dict[str, list[float]] = {who: [] for who in right}
    order = random.Random(0)
    for turn in range(rounds + 2):  # two to warm up
        order.shuffle(right)
        for who in right:
            flush.zero_()
            torch.cuda._sleep(SLEEP_CYCLES)
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            calls[who]()
            end.record()
            end.synchronize()
            if turn >= 2:
                samples[who].append(begin.elapsed_time(end) * 1e3)
    for who, times in samples.items():
        middle = statistics.median(times)
        low, _, high = statistics.quantiles(times, n=4)
        spread = (high - low) / 2 / middle
        rate = flops / middle / 1e6
        yield {"case": case, "who": who, "us": middle, "spread": spread, "tflops": rate, "samples": times}


if __name__ == "__main__":
    sys.exit(main())
