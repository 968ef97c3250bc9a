"""Ten thousand damaged inputs: the parsers of machine code neither raise nor hang, and their results can be used."""

import random
import time

import pytest

from kernellab.base.errors import UserError
from kernellab.codeanalysis.diff import align
from kernellab.codeanalysis.facts import facts_from_ptx, facts_from_sass
from kernellab.machinecode.assembler import assemble
from kernellab.machinecode.cubin import disassemble, read_cubin
from kernellab.machinecode.instructions import instructions
from kernellab.machinecode.ptx import parse_ptx
from kernellab.machinecode.sass import parse_sass
from kernellab.ptxwords.explain import DESCRIBERS, explain_ptx
from kernellab.ptxwords.stages import STAGES
from support import shipped_code
from support.machine_code import TINY_PTX

MUTANTS = 10_000
PARTS = {"ptx": 0.4, "sass": 0.3, "cubin": 0.3}
USED = 4  # every fourth input is also explained, counted and compared, which takes longer than parsing it
# One input takes milliseconds; a hang takes for ever. The limit allows for a busy machine.
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


def mutate(rng: random.Random, data: bytes, others: list[bytes]) -> bytes:
    """Damage the data one to four times: flip bits, cut, repeat, splice from another sample, insert, truncate."""
    for _ in range(rng.randint(1, 4)):
        if not data:
            break
        a, b = sorted(rng.randrange(len(data) + 1) for _ in range(2))
        short = slice(a, min(b, a + 80))
        damage = rng.randrange(6)
        if damage == 0:
            flipped = bytearray(data)
            for _ in range(rng.randint(1, 8)):
                flipped[rng.randrange(len(flipped))] ^= 1 << rng.randrange(8)
            data = bytes(flipped)
        elif damage == 1:
            data = data[:a] + data[short.stop :]
        elif damage == 2:
            data = data[:a] + data[short] * rng.randint(2, 5) + data[a:]
        elif damage == 3:
            other = rng.choice(others)
            start = rng.randrange(len(other))
            data = data[:a] + other[start : start + rng.randint(1, 200)] + data[a:]
        elif damage == 4:
            data = data[:a] + rng.choice(ODD) * rng.choice((1, 1, 2, 40)) + data[a:]
        else:
            data = data[:b]
    return data


@pytest.fixture(scope="module")
def samples() -> dict[str, list[bytes]]:
    """Real code, kept small: a hand-written kernel, the beginning of compilers' output, cubins and disassemblies."""
    tiny = TINY_PTX.encode()
    triton = shipped_code.compiled("square", "triton")[0]
    cuda = shipped_code.compiled("square", "cuda", arch=80)[0]
    cubins = [assemble(tiny.decode(), "sm_75").cubin, triton.cubin, cuda.cubin]
    heads = [triton.ptx.encode()[:1200], cuda.ptx.encode()[:1200]]
    sass = [disassemble(cubin).encode() for cubin in cubins]
    return {"ptx": [tiny, *heads], "sass": [text[: text.rindex(b"\n", 0, 2000)] for text in sass], "cubin": cubins}


def count_problems(kind: str, data: bytes, use: bool = True) -> int:
    """How many problems a file has. With `use`, the parsed file is also analysed and explained."""
    text = data.decode("utf-8", "replace")
    if kind == "ptx":
        module = parse_ptx(text)
        for line in explain_ptx(module) if use else ():
            assert line.words
            assert line.stage in STAGES
        for facts, kernel in zip(facts_from_ptx(module), module.kernels, strict=True) if use else ():
            assert facts.size == len(instructions(kernel.body))
        return len(module.problems)
    if kind == "sass":
        disassembly = parse_sass(text)
        bodies = [instructions(function.body) for function in disassembly.functions if function.body]
        for facts, body in zip(facts_from_sass(disassembly), bodies, strict=True) if use else ():
            assert facts.size == sum(line.base != "NOP" for line in body)
        code = [line for body in bodies for line in body][:20]
        assert [row.kind for row in align(code, code)] == ["same"] * len(code)
        return len(disassembly.problems)
    try:
        return len(read_cubin(data).kernels) == 0
    except UserError:  # any other exception is a failure
        return 1


def test_ten_thousand_damaged_inputs_are_parsed_or_refused(samples):
    rng = random.Random(20261115)
    everything = [data for kind in samples.values() for data in kind]
    noticed = dict.fromkeys(PARTS, 0)
    done = 0
    for kind, share in PARTS.items():
        for _ in range(round(MUTANTS * share)):
            data = mutate(rng, rng.choice(samples[kind]), everything)
            start = time.monotonic()
            noticed[kind] += bool(count_problems(kind, data, use=done % USED == 0))
            assert time.monotonic() - start < SECONDS, f"{len(data)} bytes of {kind}"
            done += 1
    assert done == MUTANTS
    # If no damage were noticed, the inputs would not be damaged.
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
    """Forms that no compiler emits: the samples do not contain them, so damaging samples does not reach them."""
    rng = random.Random(20261115)
    text = []
    for base in sorted(DESCRIBERS) * 40:
        opcode = ".".join([base, *rng.choices(MODIFIERS, k=rng.randint(0, 4))])
        guard = rng.choice(("", "", "@%p2 ", "@!%p2 "))
        text.append(f"{guard}{opcode} {', '.join(rng.choices(OPERANDS, k=rng.randint(0, 5)))};")
    module = parse_ptx(f".visible .entry k(.param .u64 p) {{ {chr(10).join(text)} }}")
    assert module.problems == []
    lines = explain_ptx(module)
    assert len(lines) == len(text) + 2  # the entry and its parameter
    assert 0.2 < sum(line.known for line in lines) / len(lines) < 1.0
    (facts,) = facts_from_ptx(module)
    assert facts.size == len(text)


@pytest.mark.parametrize("kind", ["ptx", "sass", "cubin"])
def test_the_undamaged_samples_have_no_problems(samples, kind):
    assert count_problems(kind, samples[kind][0]) == 0


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
def test_text_made_to_be_slow_is_parsed_in_linear_time(text):
    start = time.monotonic()
    module = parse_ptx(text)
    explain_ptx(module)
    facts_from_ptx(module)
    facts_from_sass(parse_sass(text))
    assert time.monotonic() - start < 4 * SECONDS
