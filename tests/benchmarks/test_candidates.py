"""The kernels of benchmarks/candidates, which wait for a GPU: compiled, and run on the CPU with all their threads.

On the CPU copies and products happen as early or as late as they may, by chance. A kernel that relies on more than its
barriers say computes something else.
"""

import argparse
import re
import shutil

import pytest
import torch

import support.simt
from kernellab.capture.recorder import capture
from kernellab.declaration.targets import load, resolve
from kernellab.machinecode.cubin import disassemble, read_cubin
from support.benchmarks import BENCHMARKS, load_script
from support.simt import CANDIDATES, Gpu, run_on_cpu

HOPPER = Gpu((9, 0), sms=4)
# So few SMs that blocks have several tiles.
SMS = 4


@pytest.fixture
def globals_of(monkeypatch):
    """What a file of candidates defines, and imports."""

    def find(file):
        (op,) = load(resolve(str(BENCHMARKS / "candidates" / f"{file}.py"))).values()
        implementation = op["cuda-wgmma"].fn
        names = getattr(implementation, "passes", implementation).__globals__
        monkeypatch.setitem(names, "sm_count", lambda device: SMS)
        return names

    return find


@pytest.fixture(autouse=True)
def unwritten_memory_is_nan(monkeypatch):
    monkeypatch.setattr(torch.utils.deterministic, "fill_uninitialized_memory", True)
    torch.use_deterministic_algorithms(True, warn_only=True)
    yield
    torch.use_deterministic_algorithms(False)


def error(x, expected):
    return ((x.double() - expected).norm() / expected.norm()).item()


def rounding(dtype):
    """More than rounding results to a dtype gives, and less than anything else."""
    return 1.5e-3 if dtype == torch.float16 else 4e-3


# Matmul --------------------------------------------------------------------------------------------------

# (M, N, K), whether each operand's columns are contiguous, the configuration. Sizes are no multiples of tiles.
PRODUCTS = [
    ((200, 264, 136), (False, False), {}),
    ((648, 520, 72), (False, True), {"group": 2}),
    ((264, 528, 200), (True, False), {"cluster": 1, "stages": 3}),
    ((520, 136, 328), (True, True), {"rows": 256, "columns": 128, "stages": 3}),
]


def operands(sizes, by_columns, dtype):
    m, n, k = sizes
    shapes = [(m, k), (k, n)]
    made = [torch.randn(s[::-1]).T if flag else torch.randn(s) for s, flag in zip(shapes, by_columns, strict=True)]
    return [x.to(dtype) for x in made]


@pytest.mark.parametrize("dtype", [torch.bfloat16, pytest.param(torch.float16, marks=pytest.mark.exhaustive)], ids=str)
def test_matmul_of_all_layouts_of_its_operands(globals_of, dtype):
    torch.manual_seed(0)
    names = globals_of("matmul_wgmma")
    cases = PRODUCTS if dtype == torch.bfloat16 else PRODUCTS[:1]
    inputs = [(*operands(sizes, flags, dtype), names["Config"](**config)) for sizes, flags, config in cases]
    results = run_on_cpu(*[(HOPPER, lambda x=x: names["multiply"](*x)) for x in inputs])
    for (a, b, _), c in zip(inputs, results, strict=True):
        assert error(c, a.double() @ b.double()) < rounding(dtype)


@pytest.mark.parametrize(
    ("change", "to", "outcome"),
    [
        ("products_wait<1>();", "products_wait<2>();", None),
        ("publish_writes();", "", "reads what was written and not published"),
        *(
            pytest.param(*change, marks=pytest.mark.exhaustive)
            for change in (
                ("        barrier_wait(&full[stage], parity);\n", "", None),
                ("          if (writes) stores_have_read<OUT_BLOCKS - 1>();\n", "", None),
                ("if (writes) stores_have_read<0>();", "", "a block ends while its shared memory is being stored"),
            )
        ),
    ],
)
def test_the_cpu_shows_what_a_missing_wait_does(globals_of, monkeypatch, tmp_path, change, to, outcome):
    """Else the tests here could not fail."""
    copy = tmp_path / "candidates"
    shutil.copytree(CANDIDATES, copy)
    source = (copy / "matmul_wgmma.cu").read_text()
    assert source.count(change) == 1
    (copy / "matmul_wgmma.cu").write_text(source.replace(change, to))
    monkeypatch.delitem(support.simt.COPIES, CANDIDATES)
    monkeypatch.setitem(support.simt.COPIES, copy, "benchmarks/candidates")
    monkeypatch.setitem(support.simt.IMITATED, "hopper.cuh", copy)
    names = globals_of("matmul_wgmma")
    config = names["Config"](cluster=1)  # the chance of one block is always the same
    kernel = names["kernel"](torch.bfloat16, True, False, config)
    monkeypatch.setattr(kernel, "path", copy / "matmul_wgmma.cu")
    torch.manual_seed(0)
    a, b = operands((264, 264, 392), (False, False), torch.bfloat16)
    if outcome is None:
        (c,) = run_on_cpu((HOPPER, lambda: names["multiply"](a, b, config)))
        assert not error(c, a.double() @ b.double()) < 10 * rounding(a.dtype)  # or NaN
    else:
        with pytest.raises(AssertionError, match=outcome):
            run_on_cpu((HOPPER, lambda: names["multiply"](a, b, config)))


# Attention -----------------------------------------------------------------------------------------------

# (batch, heads, heads of k and v, queries, keys, columns), options, the configuration of the forward pass.
CALLS = [
    ((1, 2, 1, 136, 200, 128), {"causal": "bottom_right"}, None),
    ((1, 1, 1, 264, 200, 40), {"causal": "bottom_right"}, {"slots": 3, "turns": False}),  # some queries see no key
    ((1, 3, 3, 200, 200, 64), {"causal": "top_left"}, {"slots": 6, "consumers": 3}),
    ((1, 2, 2, 100, 330, 96), {"causal": "top_left", "window": 30, "scale": -0.2}, {"keys": 176, "slots": 3}),
]


def attention_inputs(sizes, dtype):
    batches, heads, kv_heads, queries, keys, columns = sizes
    q, upstream = torch.randn(2, batches, heads, queries, columns).to(dtype)
    k = torch.randn(batches, kv_heads, keys, columns).to(dtype)
    v = torch.randn(batches, keys, kv_heads, columns).to(dtype).transpose(1, 2)
    return q, k, v, upstream


def lse_of(q, k, settings):
    scores = q.double() @ k.double().repeat_interleave(q.shape[1] // k.shape[1], 1).mT * settings.scale_for(q.shape[3])
    seen = settings.band(q.shape[2], k.shape[2]).seen(torch.arange(q.shape[2]), torch.arange(k.shape[2]))
    return scores.masked_fill(~seen, -torch.inf).logsumexp(-1)


@pytest.mark.parametrize("call", [0, 1, *(pytest.param(i, marks=pytest.mark.exhaustive) for i in (2, 3))])
def test_attention_and_its_gradients(globals_of, call):
    sizes, options, config = CALLS[call]
    names = globals_of("attention_wgmma")
    (op,) = load(resolve("attention")).values()
    torch.manual_seed(call)
    dtype = torch.float16 if call == 2 else torch.bfloat16
    q, k, v, upstream = attention_inputs(sizes, dtype)
    settings = names["Settings"](**options)
    config = None if config is None else names["Config"](**config)
    exact = [x.double().requires_grad_() for x in (q, k, v)]
    expected = op.reference(*exact, **options)
    expected_gradients = torch.autograd.grad(expected, exact, upstream.double())
    expected_lse = lse_of(q, k, settings)
    y, lse = expected.detach().to(dtype), expected_lse.float()
    forward, backward = run_on_cpu(
        (HOPPER, lambda: names["forward"](q, k, v, None, settings, config)),
        (HOPPER, lambda: names["backward"](upstream, q, k, v, None, y, lse, settings, [True] * 3)),
    )
    assert error(forward[0], expected.detach()) < rounding(dtype)
    torch.testing.assert_close(forward[1].double(), expected_lse, rtol=1e-5, atol=1e-5)
    for gradient, exact_gradient in zip(backward[:3], expected_gradients, strict=True):
        assert error(gradient, exact_gradient) < 1.5 * rounding(dtype)


# Machine code --------------------------------------------------------------------------------------------


def launches_of(file, passes=("forward",), impl="cuda-wgmma"):
    (op,) = load(resolve(str(BENCHMARKS / "candidates" / f"{file}.py"))).values()
    sizes = (4096, 4096) if file.startswith("matmul") else (2, 16, 2048, 128)
    inputs = [
        torch.empty(sizes, dtype=torch.bfloat16, device="meta", requires_grad="backward" in passes)
        for _ in range(2 if file.startswith("matmul") else 3)
    ]

    def call(*inputs):
        result = op[impl](*inputs)
        if "backward" in passes:
            torch.autograd.grad(result, inputs, torch.empty_like(result))

    return capture(call, inputs, arch="sm_90")


@pytest.mark.parametrize(
    ("file", "passes", "products", "waits"),
    [
        ("matmul_wgmma", ("forward",), [4], 2),
        # The scores of the first tile; scores and sums of a tile; the sums of the last tile.
        ("attention_wgmma", ("forward",), [8, 8 + 8, 8], 4),
        ("attention_wgmma", ("forward", "backward"), [8 + 8 + 4 + 8 + 4], 4),
    ],
)
def test_products_are_asynchronous_and_registers_do_not_spill(file, passes, products, waits):
    launch = launches_of(file, passes)[-1]
    (kernel,) = read_cubin(launch.cubin).kernels
    assert (read_cubin(launch.cubin).arch, kernel.stack_bytes) == ("sm_90a", 0)
    # Consumers wait for registers until the block has as many as they take: the block must get all of the SM's.
    assert kernel.registers * launch.threads > 65536 - 8 * launch.threads
    sass = disassemble(launch.cubin)
    assert len(re.findall(r"\bHGMMA\b", sass)) == sum(products)
    # Were they not, each would be waited for.
    assert len(re.findall(r"WARPGROUP\.DEPBAR", sass)) == waits
    assert len(re.findall(r"\bUTMALDG\b", sass)) >= 2


# The script that waits for a GPU --------------------------------------------------------------------------

script = load_script("candidates")
SHARED_LIMIT = 227 * 1024
CONFIGS = [("matmul_wgmma", None, config) for config in script.MATMUL["matmul_wgmma"]]
CONFIGS += [
    ("attention_wgmma", width, config)
    for width, configs in script.ATTENTION["attention_wgmma"].items()
    for config in configs
]


@pytest.mark.parametrize(("file", "width", "config"), CONFIGS, ids=str)
def test_every_configuration_fits_into_shared_memory(globals_of, file, width, config):
    made = globals_of(file)["Config"](**config)
    barriers = 1024
    assert (made.shared_bytes if width is None else made.shared_bytes(width)) + barriers <= SHARED_LIMIT


@pytest.mark.exhaustive
@pytest.mark.parametrize(("file", "width", "config"), CONFIGS, ids=str)
def test_every_configuration_compiles_to_asynchronous_products(globals_of, file, width, config):
    names = globals_of(file)
    made = names["Config"](**config)
    flags = (True, False) if width is None else (width,)
    kernel = names["kernel"](torch.bfloat16, *flags, made)
    cubin = kernel.compile("sm_90").code
    assert len(re.findall(r"WARPGROUP\.DEPBAR", disassemble(cubin))) <= 4
    (compiled,) = read_cubin(cubin).kernels
    assert compiled.stack_bytes <= 64  # few registers spill, outside the loop
    assert compiled.registers == (128 if getattr(made, "consumers", 2) == 3 else 168)


@pytest.mark.parametrize("file", ["matmul_gluon", "attention_gluon"])
def test_gluon_compiles_to_asynchronous_products(file):
    """Two partitions compute: each waits a few times, unless each product is waited for."""
    launch = launches_of(file, impl="triton-gluon")[0]
    (kernel,) = read_cubin(launch.cubin).kernels
    sass = disassemble(launch.cubin)
    assert kernel.stack_bytes == 0
    assert len(re.findall(r"\bHGMMA\b", sass)) == (4 if file.startswith("matmul") else 2 * (8 + 16 + 8))
    assert len(re.findall(r"WARPGROUP\.DEPBAR", sass)) <= (2 if file.startswith("matmul") else 2 * 5)


@pytest.mark.parametrize(
    ("result", "repeated", "reason"),
    [
        (1.0, True, ""),
        (1.003, True, ""),
        (1.02, True, "error of c 2.00e-02, allowed 4.0e-03"),
        (float("nan"), True, "error of c nan"),
        (1.0, False, "two calls differ"),
    ],
)
def test_what_counts_as_right(result, repeated, reason):
    row = script.compare("bfloat16", [("c", torch.full((4,), result), torch.ones(4).double(), 1.0)], repeated)
    assert row["right"] == (not reason)
    assert reason in row["reason"]


def test_an_error_of_one_configuration_does_not_end_the_others():
    def fail():
        raise ValueError("no such tile")

    assert script.guarded("tile 3", fail) == {"what": "tile 3", "right": False, "reason": "ValueError: no such tile"}


def test_a_process_that_fails_is_a_row_with_the_reason(tmp_path):
    args = argparse.Namespace(out=tmp_path, rounds=1)
    (row,) = script.run_child(args, "check nothing_gluon", 60)
    assert not row["right"]
    assert "nothing_gluon.py" in row["reason"]


def test_a_process_that_hangs_is_ended_and_what_it_found_is_kept(tmp_path, monkeypatch):
    waits = tmp_path / "waits.py"
    waits.write_text(
        "import sys, time\n"
        "open(f'{sys.argv[1]}/check-some.jsonl', 'w').write('{\"what\": \"first\", \"right\": true}\\n')\n"
        "time.sleep(60)\n"
    )
    monkeypatch.setattr(script, "__file__", str(waits))
    first, last = script.run_child(argparse.Namespace(out=tmp_path, rounds=1), "check some", 1)
    assert first["right"]
    assert not last["right"]
    assert "did not end within 1 s" in last["reason"]
