"""Copying an implementation and its reference out of an op's file, with what they need and without kernellab."""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from kernellab.base.user_code import PACKAGE
from kernellab.declaration.compiled import Compiled
from kernellab.declaration.op import Impl, Op

_DEFINITIONS = (ast.FunctionDef, ast.ClassDef)


class NeedsKernellab(Exception):
    """Why the functions cannot be copied without kernellab."""


@dataclass(frozen=True)
class CopiedFunctions:
    """The lines that define the functions, and the expressions for the implementation and the reference."""

    lines: list[str]
    impl: str
    reference: str


@dataclass(frozen=True)
class _Statement:
    """A statement of the op's file, rewritten without kernellab's decorators."""

    binds: set[str]
    uses: set[str]
    text: str
    has_effect: bool = False  # on an existing object: kept where that object is
    kernellab: bool = False  # uses kernellab
    modules: tuple[str, ...] = ()  # that it imports
    impls: dict[tuple[str, str], str] = field(default_factory=dict)  # (op, implementation) → its name in the script


class OpSource:
    """The op's file, statement by statement."""

    def __init__(self, op: Op) -> None:
        if PACKAGE in op.file.resolve().parents:
            raise NeedsKernellab(f"{op.name} is one of its own ops")
        try:
            self._text = op.file.read_text()
            tree = ast.parse(self._text)
        except (OSError, SyntaxError):
            raise NeedsKernellab("the op's file cannot be read") from None
        self._op, self._lines = op, self._text.splitlines()
        self._reference = str(getattr(op.reference, "__name__", ""))
        self._kernellab = {name for node in tree.body for name in _kernellab_names(node)}
        self._ops: set[str] = set()
        self._statements = [self._statement(part) for node in tree.body for part in _split_import(node)]

    def copy(self, impl: Impl, uses: set[str], modules: list[str]) -> CopiedFunctions:
        """The functions and what they need; `uses` and `modules` are names and modules needed besides."""
        expression = self._expression(impl)
        if not any(self._reference in statement.binds for statement in self._statements):
            raise NeedsKernellab("the reference is not a function of the op's file")
        needed = self._needed({self._reference, *uses, *_names_used(ast.parse(expression))})
        if any(statement.kernellab for statement in needed):
            raise NeedsKernellab("the code that is called uses it")
        lines = ["import torch"]
        if any(self._is_beside_the_file(name) for statement in needed for name in statement.modules):
            folder = str(self._op.file.parent.resolve())
            lines = ["import sys", "", *lines, "", f"sys.path.append({folder!r})  # modules beside the op's file"]
        lines += [f"import {module}" for module in modules]
        for statement in self._statements:
            if statement in needed and statement.text != "import torch":
                lines += ["", *statement.text.splitlines()] if "\n" in statement.text else [statement.text]
        return CopiedFunctions(lines, expression, self._reference)

    def _needed(self, names: set[str]) -> list[_Statement]:
        """The statements that bind the names, and those that these use in turn."""
        needed: list[_Statement] = []
        while True:
            others = [statement for statement in self._statements if statement not in needed]
            more = [s for s in others if s.binds & {"*", *names} or (s.has_effect and s.uses & names)]
            if not more:
                return needed
            needed += more
            names = names.union(*(statement.uses for statement in more))

    def _expression(self, impl: Impl) -> str:
        """The implementation as an expression."""
        if impl.name == "manual":
            return self._reference
        if isinstance(impl.fn, Compiled):
            settings = ", ".join(f"{name}={value!r}" for name, value in impl.fn.settings.items())
            return f"torch.compile({getattr(impl.fn.source, '__name__', self._reference)}, {settings})"
        for statement in self._statements:
            name = statement.impls.get((self._reference, impl.name))
            if name is not None and self._reference in self._ops:
                return _on_copies(name) if impl.clone else name
        raise NeedsKernellab("the implementation is not declared at the top level of the op's file")

    def _is_beside_the_file(self, module: str) -> bool:
        path = self._op.file.parent / module.split(".")[0]
        return path.is_dir() or path.with_suffix(".py").exists()

    # Statements ----------------------------------------------------------------------------------------

    def _statement(self, node: ast.stmt) -> _Statement:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            return self._import(node)
        if isinstance(node, _DEFINITIONS):
            return self._definition(node)
        if isinstance(node, ast.Expr) and (declared := _impl_declaration(node.value)) is not None:
            op, name, value = declared
            variable = f"{_identifier(op)}_{_identifier(name)}"
            text = f"{variable} = {ast.get_source_segment(self._text, value)}"
            uses, kernellab = self._uses(value, {variable})
            return _Statement({variable}, uses, text, kernellab=kernellab, impls={(op, name): variable})
        binds = {name for part in ast.walk(node) for name in _names_bound(part)}
        uses, kernellab = self._uses(node, binds)
        main = isinstance(node, ast.If) and "__name__" in ast.dump(node.test)
        has_effect = not (isinstance(node, (ast.Assign, ast.AnnAssign)) or main or kernellab)
        text = "\n".join(self._lines[_first_line(node) - 1 : node.end_lineno])
        return _Statement(binds, uses, text, has_effect=has_effect, kernellab=kernellab)

    def _import(self, node: ast.Import | ast.ImportFrom) -> _Statement:
        text = ast.unparse(node)
        if isinstance(node, ast.ImportFrom) and node.module == "__future__":
            return _Statement(set(), set(), text)
        names = {(alias.asname or alias.name).split(".")[0] for alias in node.names}
        module = node.module or "" if isinstance(node, ast.ImportFrom) else ""
        modules = (module,) if module else tuple(alias.name for alias in node.names)
        return _Statement(names, set(), text, kernellab=bool(names & self._kernellab), modules=modules)

    def _definition(self, node: ast.FunctionDef | ast.ClassDef) -> _Statement:
        impls, name, kept = {}, node.name, []
        for decorator in node.decorator_list:
            declared = _impl_call(decorator)
            if declared is not None:
                name = f"{_identifier(declared[0])}_{_identifier(declared[1])}" if name == "_" else name
                impls[declared] = name
            elif self._is_op(decorator):
                self._ops.add(node.name)
            elif not self._is_compile(decorator):
                kept.append(decorator)
        body = self._lines[node.lineno - 1 : node.end_lineno]
        body[0] = re.sub(r"^((?:async )?def|class) +\w+", rf"\1 {name}", body[0])
        text = "\n".join([*(f"@{ast.get_source_segment(self._text, decorator)}" for decorator in kept), *body])
        uses = {used for part in (*kept, *_parts(node)) for used in _names_used(part)} - {node.name}
        kernellab = bool(uses & self._kernellab) or self._uses_an_op(node)
        registers = any(isinstance(decorator, (ast.Call, ast.Attribute)) for decorator in kept) and node.name == "_"
        has_effect = registers and not (impls or kernellab)
        return _Statement({name}, uses, text, has_effect=has_effect, kernellab=kernellab, impls=impls)

    def _uses(self, node: ast.AST, binds: set[str]) -> tuple[set[str], bool]:
        """The names that a node uses, and whether it uses kernellab."""
        uses = _names_used(node) - binds
        return uses, bool(uses & self._kernellab) or self._uses_an_op(node)

    def _is_op(self, decorator: ast.expr) -> bool:
        """`@kl.op`, `@kl.op(…)`, `@op`."""
        called = decorator.func if isinstance(decorator, ast.Call) else decorator
        return _base_name(called) in self._kernellab and (not isinstance(called, ast.Attribute) or called.attr == "op")

    def _is_compile(self, decorator: ast.expr) -> bool:
        """`@op.compile`."""
        return (
            isinstance(decorator, ast.Attribute) and decorator.attr == "compile" and _base_name(decorator) in self._ops
        )

    def _uses_an_op(self, node: ast.AST) -> bool:
        """Whether an op is used as one: `op["torch"]`, `op.reference`. Calling an op calls its reference."""
        decorators = {id(decorator) for decorator in getattr(node, "decorator_list", ())}
        return any(
            isinstance(n, (ast.Attribute, ast.Subscript)) and isinstance(n.value, ast.Name) and n.value.id in self._ops
            for part in (ast.iter_child_nodes(node) if decorators else [node])
            if id(part) not in decorators
            for n in ast.walk(part)
        )


def _on_copies(function: str) -> str:
    """A function as kernellab calls it where `clone=True` is declared."""
    return f"(lambda *args, **options: {function}(*(t if t is None else t.clone() for t in args), **options))"


def _split_import(node: ast.stmt) -> list[ast.stmt]:
    """`import torch, kernellab as kl` imports two modules, of which one may be needed."""
    if isinstance(node, ast.Import):
        return [ast.copy_location(ast.Import([alias]), node) for alias in node.names]
    return [node]


def _names_bound(node: ast.AST) -> Iterator[str]:
    """The names that a node binds, including those inside `if` and `try`."""
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        yield node.id
    elif isinstance(node, _DEFINITIONS):
        yield node.name
    elif isinstance(node, (ast.Import, ast.ImportFrom)):
        yield from ((alias.asname or alias.name).split(".")[0] for alias in node.names)


def _kernellab_names(node: ast.stmt) -> Iterator[str]:
    """The names that an import of kernellab binds."""
    if isinstance(node, ast.Import):
        aliases = [alias for alias in node.names if alias.name.split(".")[0] == "kernellab"]
    elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "kernellab":
        aliases = node.names
    else:
        return
    for alias in aliases:
        yield (alias.asname or alias.name).split(".")[0]


def _impl_declaration(node: ast.expr) -> tuple[str, str, ast.expr] | None:
    """The op, the name and the function of the statement `op.impl("name", …)(function)`."""
    if not isinstance(node, ast.Call) or len(node.args) != 1:
        return None
    declared = _impl_call(node.func)
    return None if declared is None else (*declared, node.args[0])


def _impl_call(node: ast.expr) -> tuple[str, str] | None:
    """The op and the name of `op.impl("name", …)`."""
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "impl"):
        return None
    first = node.args[0] if node.args else None
    if not isinstance(first, ast.Constant) or not isinstance(first.value, str):
        return None
    return _base_name(node.func), first.value


def _parts(node: ast.FunctionDef | ast.ClassDef) -> list[ast.AST]:
    """Everything of a definition but its decorators."""
    if isinstance(node, ast.ClassDef):
        return [*node.bases, *node.keywords, *node.body]
    return [node.args, *node.body, *([node.returns] if node.returns else [])]


def _names_used(node: ast.AST) -> set[str]:
    used = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
    return {name for name in used if not hasattr(builtins, name)}


def _base_name(node: ast.expr) -> str:
    """`a` of `a.b(…)[c]`."""
    while isinstance(node, (ast.Attribute, ast.Call, ast.Subscript)):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""


def _first_line(node: ast.stmt) -> int:
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([node.lineno, *(decorator.lineno for decorator in decorators)])


def _identifier(text: str) -> str:
    return re.sub(r"\W", "_", text)
