"""Ten thousand damaged inputs: the readers of machine code neither crash nor hang, and what they read can be used."""

import random
import time

import pytest

from kernellab.base.errors import UserError
from kernellab.codeanalysis.diff import align
from kernellab.codeanalysis.facts import facts_of_ptx, facts_of_sass
from kernellab.machinecode.assembler import assemble
from kernellab.machinecode.cubin import disassemble, read_cubin
from kernellab.machinecode.instructions import instructions
from kernellab.machinecode.ptx import parse_ptx
from kernellab.machinecode.sass import parse_sass
from kernellab.ptxwords.explain import WORDS, explain_ptx
from support import shipped_code
from support.klab import HERE

MUTANTS = 10_000
PARTS = {"ptx": 0.4, "sass": 0.3, "cubin": 0.3}
USED = 4  # every fourth is also explained, counted and compared, which takes longer than reading it
# One input takes milliseconds, a hang for ever; in between lies a machine so busy that this is no timing.
SECONDS = 5.0
ODD = (
    b"{",
    b"}",
    b"[",
    b"(",
    b";",
    b",",
    b"@",
    b"%",
    b'"',
    b"/*",
    b"*/",
    b"\x00",
    b"\xff",
    b"0f",
    b".loc 1 ",
    b"\n",
    b"|",
)


def mutated(rng: random.Random, data: bytes, others: list[bytes]) -> bytes:
    """One to four blows: flips, cuts, repeats, splices from another sample, odd characters, an early end."""
    for _ in range(rng.randint(1, 4)):
        if not data:
            break
        a, b = sorted(rng.randrange(len(data) + 1) for _ in range(2))
        short = slice(a, min(b, a + 80))
        blow = rng.randrange(6)
        if blow == 0:
            flipped = bytearray(data)
            for _ in range(rng.randint(1, 8)):
                flipped[rng.randrange(len(flipped))] ^= 1 << rng.randrange(8)
            data = bytes(flipped)
        elif blow == 1:
            data = data[:a] + data[short.stop :]
        elif blow == 2:
            data = data[:a] + data[short] * rng.randint(2, 5) + data[a:]
        elif blow == 3:
            other = rng.choice(others)
            start = rng.randrange(len(other))
            data = data[:a] + other[start : start + rng.randint(1, 200)] + data[a:]
        elif blow == 4:
            data = data[:a] + rng.choice(ODD) * rng.choice((1, 1, 2, 40)) + data[a:]
        else:
            data = data[:b]
    return data


@pytest.fixture(scope="module")
def samples() -> dict[str, list[bytes]]:
    """Real ones, kept small: a hand-written kernel, pieces of compilers' output, their cubins and disassemblies."""
    tiny = (HERE / "samples" / "tiny.ptx").read_bytes()
    triton = shipped_code.triton_kernel("square_flat", "fp32", 90)
    cuda = shipped_code.cuda_kernel("Square_map_flat", "fp32", 80)
    cubins = [assemble(tiny.decode(), "sm_75").cubin, triton.cubin, cuda.cubin]
    heads = [triton.ptx.encode()[:1200], cuda.ptx.encode()[:1200]]
    sass = [disassemble(cubin).encode() for cubin in cubins]
    return {"ptx": [tiny, *heads], "sass": [text[: text.rindex(b"\n", 0, 2000)] for text in sass], "cubin": cubins}


def read(kind: str, data: bytes, use: bool = True) -> int:
    """How many problems a file had; with `use`, everything else is done with it that needs no other tool."""
    text = data.decode("utf-8", "replace")
    if kind == "ptx":
        module = parse_ptx(text)
        assert all(one.words and one.stage for one in (explain_ptx(module) if use else ()))
        for one, entry in zip(facts_of_ptx(module), module.kernels, strict=True) if use else ():
            assert one.size == len(instructions(entry.body))
        return len(module.problems)
    if kind == "sass":
        disassembly = parse_sass(text)
        assert all(one.size >= 0 for one in (facts_of_sass(disassembly) if use else ()))
        code = [line for function in disassembly.functions for line in instructions(function.body)]
        assert all(row.kind == "same" for row in align(code[:20], code[:20]))
        return len(disassembly.problems)
    try:
        return len(read_cubin(data).kernels) == 0
    except UserError:  # any other exception is a failure
        return 1


def test_ten_thousand_damaged_inputs_are_read_or_refused(samples):
    rng = random.Random(20261115)
    everything = [data for kind in samples.values() for data in kind]
    noticed = dict.fromkeys(PARTS, 0)
    done = 0
    for kind, share in PARTS.items():
        for _ in range(round(MUTANTS * share)):
            data = mutated(rng, rng.choice(samples[kind]), everything)
            began = time.monotonic()
            noticed[kind] += bool(read(kind, data, use=done % USED == 0))
            assert time.monotonic() - began < SECONDS, f"{len(data)} bytes of {kind}"
            done += 1
    assert done == MUTANTS
    # Blows that were never noticed would mean that nothing was hit.
    assert all(count > 0.15 * MUTANTS * PARTS[kind] for kind, count in noticed.items()), noticed


MODIFIERS = (
    *("f32", "s32", "b64", "u8", "f16x2", "bf16x2", "pred", "v4", "rn", "rzi", "ftz", "lo", "wide", "cc", "eq", "ltu"),
    *("global", "shared::cta", "param", "cluster", "proxy", "async", "bulk", "2d", "commit_group", "wait_group", "red"),
    *("sync", "bfly", "ballot", "add", "cas", "init", "try_wait", "arrive", "expect_tx", "mma_async", "m64n8k16", "x4"),
    *("ld", "st", "mma", "alloc", "to", "nc", "L2::cache_hint", "fractional", "warp", "mbarrier", "replace", "wait"),
)
OPERANDS = (
    "%r1",
    "%p1",
    "[%rd1+8]",
    "[%rd1, {%r1, %r2}]",
    "{%r1, %r2}",
    "0f3F800000",
    "-1",
    "0",
    "name",
    "%r1|%p1",
    "_",
)


def test_every_opcode_with_any_modifiers_and_operands_is_explained_or_unknown():
    """Forms no compiler writes: what the samples do not hold, damage does not reach."""
    rng = random.Random(20261115)
    text = []
    for base in sorted(WORDS) * 40:
        opcode = ".".join([base, *rng.choices(MODIFIERS, k=rng.randint(0, 4))])
        guard = rng.choice(("", "", "@%p2 ", "@!%p2 "))
        text.append(f"{guard}{opcode} {', '.join(rng.choices(OPERANDS, k=rng.randint(0, 5)))};")
    module = parse_ptx(f".visible .entry k(.param .u64 p) {{ {chr(10).join(text)} }}")
    assert module.problems == []
    lines = explain_ptx(module)
    assert len(lines) == len(text) + 2  # the entry and its parameter
    assert 0.2 < sum(one.known for one in lines) / len(lines) < 1.0
    facts_of_ptx(module)


@pytest.mark.parametrize("kind", ["ptx", "sass", "cubin"])
def test_the_samples_themselves_are_in_order(samples, kind):
    whole = samples[kind][0]
    assert read(kind, whole) == 0


@pytest.mark.parametrize(
    "text",
    [
        ".visible .entry k() { mov.b32 " + "{" * 100_000,
        ".visible .entry k() { " + "{" * 50_000 + "a: bra a;",
        ".visible .entry k() { x " + "%r1, " * 50_000 + ";}",
        ".visible .entry k() { @" + "!" * 100_000 + "%p bra a;}",
        "/*" * 100_000,
        '"' * 100_000,
        "." * 100_000,
        ".visible .entry k() { " + "a: @%p bra a; " * 20_000 + "}",
        ".visible .entry k() { .reg .b32 " + "%r<9>, " * 20_000 + ";}",
        ".visible .entry k() { " + ".reg .b32 %r<9>;\n.shared .b32 x;\n" * 10_000 + "}",
        ".visible .entry k() " + " ".join(f".d{i} 1" for i in range(20_000)) + " { ret; }",
        ".visible .entry k() { x 0x" + "f" * 100_000 + "; x " + "9" * 100_000 + ";}",
        ".visible .entry k() { ld.global.b" + "9" * 9_000 + " %r1, [%rd1+0x" + "f" * 9_000 + "]; }",
        ".visible .entry k() { .shared .b"
        + "9" * 9_000
        + " x["
        + "9" * 9_000
        + "]; mma.m"
        + "9" * 9_000
        + "n8k8.f32 x; }",
        "/*0000*/ X " + "[" * 100_000 + " ;",
        "\n".join(f"/*{i:04x}*/ @P0 BRA 0x{(i * 7919) % 65536 & ~0xF:x} ;" for i in range(0, 65536, 16)),
    ],
    ids=range(16),
)
def test_text_made_to_be_slow_is_read_in_time_that_grows_with_its_length(text):
    began = time.monotonic()
    module = parse_ptx(text)
    explain_ptx(module)
    facts_of_ptx(module)
    facts_of_sass(parse_sass(text))
    assert time.monotonic() - began < 4 * SECONDS
