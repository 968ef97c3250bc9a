"""`and`, `or` and `not` of blocks: of each element, as Triton compiles them.

In Triton's interpreter they are Python's, which asks whether a whole block is true: of two masks joined by `and` the
first is forgotten, and a kernel reads and writes outside its tensors.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from types import ModuleType
from typing import Protocol, TypeGuard

from kernellab.interpreter.language import replace_function

# Names in the interpreter's module, which kernels see.
_AND, _OR, _NOT = "kernellab_and", "kernellab_or", "kernellab_not"


class _Block(Protocol):
    """A tensor of Triton's language with a shape."""

    def logical_and(self, other: object) -> object: ...
    def logical_or(self, other: object) -> object: ...
    def __not__(self) -> object: ...


def provide_logic(interpreter: ModuleType, tl: ModuleType) -> None:
    """Kernels are rewritten to call the functions below. For scalars and constants these do what Python does."""

    def is_block(value: object) -> TypeGuard[_Block]:
        return isinstance(value, tl.tensor) and bool(value.type.is_block())

    def logical_and(*operands: Callable[[], object]) -> object:
        result: object = True
        for operand in operands:
            value = operand()
            if is_block(value):
                result = value.logical_and(result)
            elif is_block(result):
                result = result.logical_and(value)
            elif not value:
                return value
            else:
                result = value
        return result

    def logical_or(*operands: Callable[[], object]) -> object:
        result: object = False
        for operand in operands:
            value = operand()
            if is_block(value):
                result = value.logical_or(result)
            elif is_block(result):
                result = result.logical_or(value)
            elif value:
                return value
            else:
                result = value
        return result

    def logical_not(value: object) -> object:
        return value.__not__() if is_block(value) else not value

    for name, function in ((_AND, logical_and), (_OR, logical_or), (_NOT, logical_not)):
        replace_function(interpreter, name, function)

    class Transformer(type(interpreter.FunctionRewriter.ast_transformer)):  # type: ignore[misc]
        def visit_Assign(self, node: ast.Assign) -> ast.AST:  # noqa: N802
            node.value = self.visit(node.value)  # which Triton's own transformer does not visit
            changed: ast.AST = super().visit_Assign(node)
            return changed

        def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:  # noqa: N802
            self.generic_visit(node)
            operands: list[ast.expr] = [ast.Lambda(_NO_ARGUMENTS, value) for value in node.values]
            return _call(_AND if isinstance(node.op, ast.And) else _OR, operands)

        def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:  # noqa: N802
            self.generic_visit(node)
            return _call(_NOT, [node.operand]) if isinstance(node.op, ast.Not) else node

    interpreter.FunctionRewriter.ast_transformer = Transformer()


_NO_ARGUMENTS = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])


def _call(name: str, arguments: list[ast.expr]) -> ast.Call:
    return ast.Call(func=ast.Name(id=name, ctx=ast.Load()), args=arguments, keywords=[])
