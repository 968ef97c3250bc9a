"""Op files with random mistakes, and what must be reported for each: `generate(seed)` writes one.

A mistake is in an implementation, in the reference, in the declaration, in the module, or in the file itself. Most
files have one; some have two implementations with mistakes. The same seed gives the same file. Each must report what a
user needs: the culprit with its status and the reason, and that the other implementations are right.
"""

from __future__ import annotations

import random
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from support.mistakes_elsewhere import HARMLESS, IN_DECLARATION, IN_MODULE, IN_REFERENCE, NO_FILE, ODD_NAMES
from support.mistakes_in_impls import FILE, HOSTILE, IN_IMPLS, BadImpl


@dataclass(frozen=True)
class Expected:
    """What must be reported for a culprit: an implementation, `file` (refused) or `reference` (all implementations)."""

    culprit: str
    statuses: tuple[str, ...] = ()
    words: tuple[str, ...] = ()


@dataclass(frozen=True)
class Mistake:
    name: str
    write: Callable[[Path], None]  # creates the file, or something else, at a path
    expected: tuple[Expected, ...]
    codes: tuple[int, ...]
    right: tuple[str, ...] = ()  # implementations that must be right
    verb: str = "check"
    impls: tuple[str, ...] = ()  # for --impl; `compile` takes longer than the time limit here
    source: str = ""


# Small ops -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SmallOp:
    declaration: str  # arguments of kl.op
    params: str  # of the reference and of every implementation
    expressions: tuple[str, ...]  # all equal; the first is the reference's
    first: str = "x"

    @property
    def short(self) -> str:
        """Parameters with one tensor too few."""
        names = self.params.split(", ")
        return ", ".join(names[1:] if names[1:] and names[1] != "*" else ["*", *names[2:]] if names[2:] else [])


_SHAPES = ("(16, 24)", "(7, 33)", "(64, 8)", "(1, 129)", "(5,)", "(3, 4, 5)")
_SMALL_OPS = (
    SmallOp(
        "cases=kl.cases(shape=[SHAPE])",
        "x",
        ("x * torch.sigmoid(x)", "torch.nn.functional.silu(x)", "x / (1 + torch.exp(-x))", "torch.sigmoid(x).mul(x)"),
    ),
    SmallOp(
        "cases=kl.cases(shape=[SHAPE], dtype=['float32'])",
        "x, y",
        ("x * y + x", "torch.addcmul(x, x, y)", "(y + 1) * x", "x + y * x"),
    ),
    SmallOp(
        "args=dict(x=kl.tensor('M N')), reduces='N', cases=kl.cases(M=[MSIZE], N=[NSIZE])",
        "x",
        ("x.sum(-1)", "torch.sum(x, dim=1)", "x.flip(-1).sum(-1)", "torch.einsum('mn->m', x)"),
    ),
    SmallOp(
        "args=dict(x=kl.tensor('M N'), at=kl.index('M', below='N')), cases=kl.cases(M=[MSIZE], N=[NSIZE])",
        "x, at",
        (
            "x.gather(1, at[:, None])[:, 0].clone()",
            "x[torch.arange(len(at)), at]",
            "torch.take_along_dim(x, at[:, None], 1).squeeze(1)",
            "torch.stack([row[k] for row, k in zip(x, at)])",
        ),
    ),
    SmallOp(
        "options=dict(scale=[1.0, 0.5], add=[0.0, 2.0]), cases=kl.cases(shape=[SHAPE])",
        "x, *, scale, add",
        ("x * scale + add", "torch.mul(x, scale).add(add)", "add + scale * x", "torch.add(x * scale, add)"),
    ),
)
_HEAD = """\
import builtins, ctypes, gc, json, os, random, resource, signal, subprocess, sys, tempfile, threading, time, warnings
import torch
import kernellab as kl
"""
# Statements of right implementations that fail if an earlier implementation has changed global state.
_STATE_CHECKS = (
    "assert os.getcwd() and open('/dev/null')",
    "warnings.warn('nothing of importance')",
    "torch.ones(1 << 20)",
    "time.sleep(0.1)",
    "assert torch.zeros(1).dtype == torch.float32",
    "json.dumps([1])",
    "gc.collect()",
)


# Composing a file ----------------------------------------------------------------------------------------


def generate(seed: int) -> Mistake:
    """The op file of a seed."""
    chance = random.Random(seed)
    where = chance.choices(
        [
            "implementation",
            "two implementations",
            "reference",
            "module",
            "harmless",
            "declaration",
            "name",
            "no file",
            "cost",
        ],
        [52, 14, 9, 9, 5, 9, 2, 4, 1],
    )[0]
    return {
        "implementation": lambda: in_impls(chance, [chance.choice(IN_IMPLS)]),
        "two implementations": lambda: in_impls(chance, chance.sample(IN_IMPLS, 2)),
        "reference": lambda: in_reference(chance, chance.choice(sorted(IN_REFERENCE))),
        "module": lambda: in_module(chance, chance.choice(sorted(IN_MODULE))),
        "harmless": lambda: harmless(chance, chance.choice(sorted(HARMLESS))),
        "declaration": lambda: in_declaration(chance, chance.choice(sorted(IN_DECLARATION))),
        "name": lambda: odd_name(chance, chance.choice(ODD_NAMES)),
        "no file": lambda: no_file(chance.choice(sorted(NO_FILE))),
        "cost": lambda: cost(chance),
    }[where]()


def all_mistakes(seed: int = 0) -> list[Mistake]:
    """Each mistake once, in a small op that the seed chooses."""
    chance = random.Random(seed)
    return [
        *(in_impls(chance, [bad]) for bad in IN_IMPLS),
        *(in_impls(chance, [bad], name="torch") for bad in IN_IMPLS),
        *(in_reference(chance, name) for name in IN_REFERENCE),
        *(in_module(chance, name) for name in IN_MODULE),
        *(harmless(chance, name) for name in HARMLESS),
        *(in_declaration(chance, name) for name in IN_DECLARATION),
        *(odd_name(chance, name) for name in ODD_NAMES),
        *(no_file(name) for name in NO_FILE),
        cost(chance),
    ]


def in_impls(chance: random.Random, bad: list[BadImpl], name: str | None = None) -> Mistake:
    small = _small_op(chance)
    right = _right_impls(chance, small)
    parts, expected, impls = list(right.items()), [], ["manual", *right]
    for number, mistake in enumerate(bad):
        # PyTorch's own op is the peer of the others: a bad one must not make them fail.
        impl_name = name or (
            "torch" if number == 0 and "torch" not in right and chance.random() < 0.2 else f"bad-{number}"
        )
        if impl_name == "torch":
            parts = [(n, text) for n, text in parts if n != "torch"]
            impls = [n for n in impls if n != "torch"]
        parts.insert(chance.randint(0, len(parts)), (impl_name, _impl(small, impl_name, mistake)))
        impls.append(impl_name)
        expected.append(Expected(impl_name, mistake.statuses, mistake.words))
    source = _declaration(small) + "".join(text for _, text in parts)
    good = tuple(n for n in impls if n not in {s.culprit for s in expected})
    label = " + ".join(f"an implementation: {b.name}" if i == 0 else b.name for i, b in enumerate(bad))
    if "torch" in {s.culprit for s in expected}:
        label += " (as torch)"
    return _mistake(label, source, expected, right=good, impls=tuple(impls))


def in_reference(chance: random.Random, name: str) -> Mistake:
    small = _small_op(chance)
    body, word = IN_REFERENCE[name]
    keyword = "async def" if body == "ASYNC" else "def"
    body = _fill(small, "return RIGHT" if body == "ASYNC" else body, small.expressions[0])
    right = _right_impls(chance, small)
    source = _HEAD + HOSTILE + f"\n@kl.op({small.declaration})\n{keyword} f({small.params}):\n"
    source += textwrap.indent(body, "    ") + "\n" + "".join(right.values())
    expected = Expected(
        "reference", ("unknown",), ("reference" if name not in ("is random", "petabytes", "complex") else "", word)
    )
    return _mistake(f"the reference: {name}", source, [expected], impls=("manual", *right))


def in_module(chance: random.Random, name: str) -> Mistake:
    small = _small_op(chance)
    text, words = IN_MODULE[name]
    right = "".join(_right_impls(chance, small).values())
    early = name == "forgets to declare" or chance.random() < 0.5
    source = (
        _declaration(small).replace(_HEAD, _HEAD + text + "\n") if early else _declaration(small) + right + "\n" + text
    )
    source += right if early else "\n"
    return _mistake(f"the module: {name}", source, [Expected("file", words=(FILE, *words))], impls=("manual",))


def harmless(chance: random.Random, name: str) -> Mistake:
    small = _small_op(chance)
    right = _right_impls(chance, small, checks_state=False)
    text = HARMLESS[name]
    early = "f.cost" not in text and chance.random() < 0.5
    source = _declaration(small).replace(_HEAD, _HEAD + text + "\n") if early else _declaration(small)
    source += "".join(right.values()) + ("" if early else "\n" + text + "\n")
    return _mistake(f"the module, harmless: {name}", source, [], right=("manual", *right), impls=("manual", *right))


def in_declaration(chance: random.Random, name: str) -> Mistake:
    declaration, after, words = IN_DECLARATION[name]
    params = {"PARAMS": "", None: "x"}.get(declaration, "x, *, scale=1, add=0")
    arguments = "cases=kl.cases(shape=[(4, 4)])" if declaration in (None, "PARAMS") else declaration
    source = _HEAD + f"\n@kl.op({arguments})\ndef f({params}):\n    return x * 2\n"
    source += f"\n@f.impl('impl-zero')\ndef _({params}):\n    return x + x\n{after}\n"
    return _mistake(f"the declaration: {name}", source, [Expected("file", words=(FILE, *words))], impls=("manual",))


def odd_name(chance: random.Random, name: str) -> Mistake:
    small = _small_op(chance)
    right = _right_impls(chance, small, checks_state=False)
    source = _HEAD + f'\n@kl.op(name="{name}", {small.declaration})\ndef f({small.params}):\n'.replace("'\"", "'\\\"")
    source += f"    return {small.expressions[0]}\n" + "".join(right.values())
    source += f'\n@f.impl("{name}")\ndef _({small.params}):\n    return {small.expressions[-1]}\n'.replace(
        "'\"", "'\\\""
    )
    return _mistake(f"odd names: {name[:12]}", source, [], right=("manual", *right), impls=("manual", *right))


def no_file(name: str) -> Mistake:
    make, words = NO_FILE[name]
    return Mistake(
        f"the file: {name}", lambda path: (make(path), None)[1], (Expected("file", words=(FILE, *words)),), (2,)
    )


def cost(chance: random.Random) -> Mistake:
    """Only `klab run` evaluates cost=, for implementations that it times."""
    small = _small_op(chance)
    source = _declaration(small) + "\nf.cost = lambda *a, **k: time.sleep(1e6)\n"
    expected = Expected("manual", ("timeout", "error"), ("cost=",))
    return _mistake("cost= sleeps for ever", source, [expected], impls=("manual",), verb="run")


def _mistake(
    name: str,
    source: str,
    expected: list[Expected],
    *,
    right: tuple[str, ...] = (),
    impls: tuple[str, ...] = (),
    verb: str = "check",
) -> Mistake:
    def write(path: Path) -> None:
        path.write_bytes(source.encode())

    return Mistake(name, write, tuple(expected), _codes(expected), right, verb, impls, source)


def _codes(expected: list[Expected]) -> tuple[int, ...]:
    """Exit codes: 0 if nothing needs to be wrong, 1 if something must be, 2 for a refusal, 3 for cannot tell."""
    if any(s.culprit == "file" for s in expected):
        return (2,)
    if any(s.culprit == "reference" for s in expected):
        return (3,)
    fine = {"ok", "skipped"}
    if any(not fine & set(s.statuses) for s in expected):
        return (1,)
    return (0,) if all(fine >= set(s.statuses) for s in expected) else (0, 1)


def _small_op(chance: random.Random) -> SmallOp:
    small = chance.choice(_SMALL_OPS)
    sizes = {
        "SHAPE": chance.choice(_SHAPES),
        "MSIZE": str(chance.choice((3, 16, 40))),
        "NSIZE": str(chance.choice((2, 33, 64))),
    }
    declaration = small.declaration
    for word, size in sizes.items():
        declaration = declaration.replace(word, size)
    return SmallOp(declaration, small.params, small.expressions, small.first)


def _declaration(small: SmallOp) -> str:
    return _HEAD + f"\n@kl.op({small.declaration})\ndef f({small.params}):\n    return {small.expressions[0]}\n"


def _right_impls(chance: random.Random, small: SmallOp, *, checks_state: bool = True) -> dict[str, str]:
    """Two to four right implementations by name; some check the state of the process first."""
    impls = {}
    for number in range(chance.randint(2, 4)):
        name = "torch" if number == 0 and chance.random() < 0.3 else f"impl-{number}"
        check = f"    {chance.choice(_STATE_CHECKS)}\n" if checks_state and chance.random() < 0.5 else ""
        result = small.expressions[1 + number % 3]
        impls[name] = f'\n@f.impl("{name}")\ndef _({small.params}):\n{check}    return {result}\n'
    return impls


def _impl(small: SmallOp, name: str, bad: BadImpl) -> str:
    names = small.params.split(", ")
    forms = {
        None: small.params,
        "SHORT": small.short,
        "MORE": ", ".join([names[0], "another", *names[1:]]),
        "KEYWORD": small.params + (", unheard" if "*" in names else ", *, unheard"),
    }
    params = forms.get(bad.params, bad.params)
    decoration = f", {bad.decoration}" if bad.decoration else ""
    body = textwrap.indent(_fill(small, bad.body, small.expressions[1]), "    ")
    return f'\n{bad.top}\n@f.impl("{name}"{decoration})\n{bad.keyword} _({params}):\n{body}\n'


def _fill(small: SmallOp, body: str, right: str) -> str:
    return body.replace("RIGHT", right).replace("FIRST", small.first)
