"""A failing trial as a script that needs torch alone: the two functions out of the op's file, then a few lines.

Of the op's file only what the way and the reference need is copied, without kernellab's decorators. Where they use
kernellab themselves the script loads the file with kernellab, and says so.
"""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from kernellab.base.user_code import PACKAGE
from kernellab.declaration.compiled import Compiled
from kernellab.declaration.op import Impl, Op
from kernellab.reproduction import inputs as plain
from kernellab.reproduction.call import Words
from kernellab.reproduction.literals import Names, literal, looked_up, spell
from kernellab.trials.trial import Trial

_DEFINITIONS = (ast.FunctionDef, ast.ClassDef)


@dataclass
class Script:
    """`lines` are the part that is about the trial, for people; `text` is the whole file."""

    lines: list[str]
    text: str


def script(op: Op, impl: Impl, trial: Trial, observed: dict[str, Any], *, seed: int, interpreted: bool) -> Script:
    """What reproduces a trial's failure on its own."""
    said = (f"{op.name} {impl.name} at {trial.label}", f"{observed['status']}: {observed['reason']}")
    head = [f"# {' '.join(text.split())}" for text in said]
    if interpreted:
        head += ["import os", "", 'os.environ["TRITON_INTERPRET"] = "1"  # before triton is imported']
    try:
        functions, options = _copied(op, impl, trial)
    except _Needed as needed:
        functions, options = [f"# kernellab is needed: {needed}", *_loaded(op, impl)], _from_the_op(op, trial)
    names = Names(looked_up("\n".join([*head, *functions])))
    words = Words(names, options, names.new("way"), names.new("reference"))
    lines = plain.lines(op, trial, observed, seed, words)
    *above, called = functions
    above.append(f"{words.way}, {words.reference} = {called}")
    return Script(lines, "\n".join([*head, *above, "", "", *lines, ""]))


# Options -----------------------------------------------------------------------------------------------


def _from_the_op(op: Op, trial: Trial) -> dict[str, str]:
    """Where the op itself is there: what has no literal is taken from its declaration."""
    found = {}
    for name, value in op.call_options(trial.case).items():
        places = (at for at, declared in enumerate(op.options[name]) if declared is value)
        found[name] = literal(value) or f"op.options[{name!r}][{next(places, 0)}]"
    return found


# The functions -----------------------------------------------------------------------------------------


class _Needed(Exception):
    """Why the functions cannot do without kernellab."""


def _loaded(op: Op, impl: Impl) -> list[str]:
    shipped = PACKAGE in op.file.resolve().parents
    target = (
        f"Target({op.name!r}, module='kernellab.ops.{op.name}', op={op.name!r})"
        if shipped
        else f"Target({op.file.name!r}, file={str(op.file.resolve())!r})"
    )
    return [
        "import torch",
        "",
        "from kernellab.declaration.targets import Target, load",
        "",
        f"op = load({target})[{op.name!r}]",
        f"op[{impl.name!r}], op.reference",
    ]


def _copied(op: Op, impl: Impl, trial: Trial) -> tuple[list[str], dict[str, str]]:
    """What is copied from the op's file, the last line being the two functions, and the options of the call."""
    source = _Source(op)
    beside = getattr(op.reference, "__globals__", {})
    spelled = {name: spell(value, beside) for name, value in op.call_options(trial.case).items()}
    for name, one in spelled.items():
        if one is None:
            raise _Needed(f"the value of {name} has no name in the op's file")
    known = {name: one for name, one in spelled.items() if one is not None}
    uses = {used for one in known.values() for used in one.uses}
    modules = sorted({module for one in known.values() for module in one.modules})
    return source.copied(impl, uses, modules), {name: one.text for name, one in known.items()}


@dataclass
class _Piece:
    """A statement of the op's file: the names it binds, the names it uses, its text."""

    binds: set[str]
    uses: set[str]
    text: str
    acts: bool = False  # on something that exists: to be kept where that is
    kernellab: bool = False
    modules: tuple[str, ...] = ()  # what it imports
    ways: dict[tuple[str, str], str] = field(default_factory=dict)  # (op, way) → what it is called here


class _Source:
    """The op's file, statement by statement."""

    def __init__(self, op: Op) -> None:
        if PACKAGE in op.file.resolve().parents:
            raise _Needed(f"{op.name} is one of its own ops")
        try:
            self._text = op.file.read_text()
            tree = ast.parse(self._text)
        except (OSError, SyntaxError):
            raise _Needed("the op's file cannot be read") from None
        self._op, self._lines = op, self._text.splitlines()
        self._kernellab = {name for node in tree.body for name in _kernellab_names(node)}
        self._ops: set[str] = set()
        self._pieces = [self._piece(one) for node in tree.body for one in _apart(node)]

    def copied(self, impl: Impl, uses: set[str], modules: list[str]) -> list[str]:
        """The lines of what is needed, then the way and the reference; `uses` and `modules` are asked for besides."""
        reference = getattr(self._op.reference, "__name__", "")
        way = self._way(impl, reference)
        if not any(reference in piece.binds for piece in self._pieces):
            raise _Needed("the reference is not a function of the op's file")
        wanted = {reference, *uses, *_names(ast.parse(way))}
        kept: list[_Piece] = []
        while True:
            fresh = [piece for piece in self._pieces if piece not in kept]
            more = [p for p in fresh if p.binds & {"*", *wanted} or (p.acts and p.uses & wanted)]
            if not more:
                break
            kept += more
            wanted |= {name for piece in more for name in piece.uses}
        for piece in kept:
            if piece.kernellab:
                raise _Needed("what is called uses it")
        lines = ["import torch"]
        if any(self._stands_beside(name) for piece in kept for name in piece.modules):
            folder = str(self._op.file.parent.resolve())
            lines = ["import sys", "", *lines, "", f"sys.path.append({folder!r})  # modules beside the op's file"]
        lines += [f"import {module}" for module in modules]
        for piece in self._pieces:
            if piece in kept and piece.text != "import torch":
                lines += ["", *piece.text.splitlines()] if "\n" in piece.text else [piece.text]
        return [*lines, "", f"{way}, {reference}"]

    def _way(self, impl: Impl, reference: str) -> str:
        if impl.name == "manual":
            return reference
        if isinstance(impl.fn, Compiled):
            settings = ", ".join(f"{k}={v!r}" for k, v in impl.fn.settings.items())
            return f"torch.compile({getattr(impl.fn.source, '__name__', reference)}, {settings})"
        for piece in self._pieces:
            for (op, name), called in piece.ways.items():
                if name == impl.name and op in self._ops and op == self._variable():
                    return called
        raise _Needed("the way is not declared at the top of the op's file")

    def _stands_beside(self, module: str) -> bool:
        first = self._op.file.parent / module.split(".")[0]
        return first.is_dir() or first.with_suffix(".py").exists()

    def _variable(self) -> str:
        """What the op is called in its file."""
        return getattr(self._op.reference, "__name__", "")

    def _piece(self, node: ast.stmt) -> _Piece:
        text = "\n".join(self._lines[_first_line(node) - 1 : node.end_lineno])
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            text = ast.unparse(node)
            names = {(alias.asname or alias.name).split(".")[0] for alias in node.names}
            if isinstance(node, ast.ImportFrom) and node.module == "__future__":
                return _Piece(set(), set(), text)
            module = node.module or "" if isinstance(node, ast.ImportFrom) else ""
            modules = (module,) if module else tuple(alias.name for alias in node.names)
            return _Piece(names, set(), text, kernellab=bool(names & self._kernellab), modules=modules)
        if isinstance(node, _DEFINITIONS):
            return self._definition(node)
        if isinstance(node, ast.Expr) and (declared := _declaration(node.value)) is not None:
            op, name, value = declared
            called = f"{_identifier(op)}_{_identifier(name)}"
            text = f"{called} = {ast.get_source_segment(self._text, value)}"
            return self._made({called}, value, text, ways={(op, name): called})
        bound = {name for part in ast.walk(node) for name in _bound(part)}
        piece = self._made(bound, node, text)
        main = isinstance(node, ast.If) and "__name__" in ast.dump(node.test)
        piece.acts = not (isinstance(node, (ast.Assign, ast.AnnAssign)) or main or piece.kernellab)
        return piece

    def _definition(self, node: ast.FunctionDef | ast.ClassDef) -> _Piece:
        ways, name, kept = {}, node.name, []
        for decorator in node.decorator_list:
            way = _is_impl(decorator)
            if way is not None:
                name = f"{_identifier(way[0])}_{_identifier(way[1])}" if name == "_" else name
                ways[way] = name
            elif self._is_op(decorator):
                self._ops.add(node.name)
            elif not (
                isinstance(decorator, ast.Attribute) and decorator.attr == "compile" and _base(decorator) in self._ops
            ):
                kept.append(decorator)
        body = self._lines[node.lineno - 1 : node.end_lineno]
        body[0] = re.sub(r"^((?:async )?def|class) +\w+", rf"\1 {name}", body[0])
        above = [f"@{ast.get_source_segment(self._text, d)}" for d in kept]
        renamed = {used for part in (*kept, *_inside(node)) for used in _names(part)} - {node.name}
        text = "\n".join([*above, *body])
        acts = any(isinstance(d, (ast.Call, ast.Attribute)) for d in kept)
        odd = bool(renamed & self._kernellab) or self._uses_an_op(node)
        return _Piece(
            {name}, renamed, text, acts=acts and node.name == "_" and not (ways or odd), kernellab=odd, ways=ways
        )

    def _made(self, binds: set[str], node: ast.AST, text: str, **more: Any) -> _Piece:
        uses = _names(node) - binds
        return _Piece(binds, uses, text, kernellab=bool(uses & self._kernellab) or self._uses_an_op(node), **more)

    def _is_op(self, decorator: ast.expr) -> bool:
        called = decorator.func if isinstance(decorator, ast.Call) else decorator
        return _base(called) in self._kernellab and (not isinstance(called, ast.Attribute) or called.attr == "op")

    def _uses_an_op(self, node: ast.AST) -> bool:
        """Whether an op is used as one: `op["torch"]`, `op.reference`. To call it is to call its reference."""
        decorators = {id(d) for d in getattr(node, "decorator_list", ())}
        return any(
            isinstance(n, (ast.Attribute, ast.Subscript)) and isinstance(n.value, ast.Name) and n.value.id in self._ops
            for part in (ast.iter_child_nodes(node) if decorators else [node])
            if id(part) not in decorators
            for n in ast.walk(part)
        )


def _apart(node: ast.stmt) -> list[ast.stmt]:
    """`import torch, kernellab as kl` imports two things, of which one may be needed."""
    if isinstance(node, ast.Import):
        return [ast.copy_location(ast.Import([alias]), node) for alias in node.names]
    return [node]


def _bound(node: ast.AST) -> Iterator[str]:
    """The names a node binds, those inside `if` and `try` too."""
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        yield node.id
    elif isinstance(node, _DEFINITIONS):
        yield node.name
    elif isinstance(node, (ast.Import, ast.ImportFrom)):
        yield from ((alias.asname or alias.name).split(".")[0] for alias in node.names)


def _kernellab_names(node: ast.stmt) -> Iterator[str]:
    if isinstance(node, ast.Import):
        found = [a for a in node.names if a.name.split(".")[0] == "kernellab"]
    elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "kernellab":
        found = node.names
    else:
        return
    for alias in found:
        yield (alias.asname or alias.name).split(".")[0]


def _declaration(node: ast.expr) -> tuple[str, str, ast.expr] | None:
    """`op.impl("name", …)(function)`, as a statement."""
    way = _is_impl(node.func) if isinstance(node, ast.Call) and len(node.args) == 1 else None
    return (*way, node.args[0]) if way is not None and isinstance(node, ast.Call) else None


def _is_impl(node: ast.expr) -> tuple[str, str] | None:
    """The op and the way of `op.impl("name", …)`."""
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "impl"):
        return None
    first = node.args[0] if node.args else None
    named = isinstance(first, ast.Constant) and isinstance(first.value, str)
    return (_base(node.func), str(first.value)) if named and isinstance(first, ast.Constant) else None


def _inside(node: ast.FunctionDef | ast.ClassDef) -> list[ast.AST]:
    if isinstance(node, ast.ClassDef):
        return [*node.bases, *node.keywords, *node.body]
    return [node.args, *node.body, *([node.returns] if node.returns else [])]


def _names(node: ast.AST) -> set[str]:
    used = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
    return {name for name in used if not hasattr(builtins, name)}


def _base(node: ast.expr) -> str:
    while isinstance(node, (ast.Attribute, ast.Call, ast.Subscript)):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""


def _first_line(node: ast.stmt) -> int:
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([node.lineno, *(d.lineno for d in decorators)])


def _identifier(text: str) -> str:
    return re.sub(r"\W", "_", text)
