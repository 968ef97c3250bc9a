"""An op file from what `torch.compile` generated: its Triton kernels as plain ones, with the launches written out.

What inductor decides is explained beside it: block, warps and size hints. Sizes are compiled in; whoever changes the
file by hand starts from code that works.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import math
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from kernellab.base.errors import UserError
from kernellab.capture.inductor import Generated
from kernellab.capture.launch import Launch
from kernellab.declaration.case import ELLIPSIS, Case
from kernellab.declaration.op import Op

_HELPERS = {
    "triton_helpers": "from torch._inductor.runtime import triton_helpers",
    "libdevice": "from torch._inductor.runtime.triton_helpers import libdevice",
    "tl_math": "from torch._inductor.runtime.triton_helpers import math as tl_math",
}
_KNOWN = {"torch", "math"}  # modules a reference may use: the file imports them
# Statements of inductor's function that an ordinary launcher has no use for.
_SKIPPED = (
    *("args.clear", "assert_size_stride", "assert_alignment", "copy_if_misaligned", "get_raw_stream"),
    "torch.cuda.set_device",
)


def exported(op: Op, case: Case, found: Generated, *, ran: bool, interpreted: int) -> str:
    """The file's text. Raises `UserError` where the generated code does something no op file can.

    `interpreted` is how many elements an input may have where there is no GPU to run the kernels.
    """
    kernels = {kernel.name: kernel for kernel in _kernels(found.source)}
    if not kernels:
        raise UserError(f"torch.compile wrote no Triton kernel for {op.name}: there is nothing to export")
    chosen: dict[str, Launch] = {}
    for launch in found.launches:
        chosen.setdefault(launch.kernel, launch)
    body, inputs = _launcher(found.source, chosen)
    if len(inputs) != len(op.args):
        raise UserError(f"torch.compile gave its code {len(inputs)} inputs where {op.name} has {len(op.args)}")
    arch = next(iter(chosen.values())).arch
    texts = [
        kernel.told(chosen[name], _count(found, name), ran=ran) for name, kernel in kernels.items() if name in chosen
    ]
    whole = "\n\n\n".join(texts)
    needed = [line for name, line in _HELPERS.items() if name in whole]
    return _FILE.format(
        name=op.name,
        label=case.label,
        arch=arch,
        imports="".join(f"{line}\n" for line in needed),
        declaration=_declaration(op, case),
        math="import math\n\n" if "math." in _reference(op) else "",
        reference=_reference(op),
        shape=case.shape,
        size=case.size_label,
        where=_FOR_A_GPU.format(most=interpreted, name=op.name) if _elements(op, case) > interpreted else "",
        dtype=case.dtype,
        signature=_signature(op),
        unpack="\n".join(
            f"    {theirs} = {ours}" for theirs, ours in zip(inputs, op.args, strict=True) if theirs != ours
        ),
        body=textwrap.indent(body, "    "),
        kernels=whole,
    )


_FILE = '''"""{name}, as torch.compile writes it for {arch} at {label}; exported by klab inspect.

klab run checks and times it beside the plain way and torch.compile itself. Sizes are compiled in: other cases
are refused. It is meant to be changed by hand.
{where}"""

{math}import torch
import triton
import triton.language as tl
{imports}
import kernellab as kl


@kl.op({declaration})
{reference}


@{name}.impl(
    "triton-generated",
    supports=lambda case: (case.shape == {shape!r} and case.dtype == "{dtype}") or "compiled for {size} {dtype}",
)
def _({signature}):
{unpack}
{body}


{kernels}
'''


_FOR_A_GPU = """
It is checked and timed on a GPU alone: without one Triton's interpreter stands in, for inputs of up to {most} elements.
klab inspect {name} --impl compile --shape … --export FILE at a smaller size writes one that is checked anywhere.
"""


def _elements(op: Op, case: Case) -> int:
    return max(math.prod(op.sizes(arg, case)) for arg in op.args.values())


# The kernels -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Kernel:
    """A kernel of the generated module: its text, and what inductor notes in its decorator."""

    name: str
    text: str
    heuristic: str
    size_hints: str

    def told(self, launch: Launch, count: int, *, ran: bool) -> str:
        constants = launch.config["constexprs"]
        blocks = ", ".join(f"{name} = {value}" for name, value in constants.items())
        lines = [
            f"a kernel of inductor's kind {self.heuristic!r}, sizes rounded up for its choice: {self.size_hints}",
            f"{blocks or 'no block to choose'}: the elements one program takes along that axis",
            f"num_warps = {launch.config['num_warps']}: the {launch.threads} threads that share them",
            f"grid = {launch.grid}: one program for each block of the output",
        ]
        if ran:
            lines.append("the configuration that ran")
        elif count > 1:
            lines.append(f"the first of {count} configurations inductor would time against each other on a GPU")
        return "\n".join(f"# {line}" for line in lines) + f"\n{self.text.strip()}"


def _kernels(source: str) -> Iterator[_Kernel]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "async_compile.triton":
            name, text = (a.value for a in node.args[:2] if isinstance(a, ast.Constant))
            yield _kernel(str(name), str(text))


def _kernel(name: str, text: str) -> _Kernel:
    (function,) = (n for n in ast.parse(text).body if isinstance(n, ast.FunctionDef))
    heuristic, hints = "", ""
    for decorator in function.decorator_list:
        if isinstance(decorator, ast.Call):
            heuristic = ast.unparse(decorator.func).rpartition(".")[2]
            hints = next((ast.unparse(k.value) for k in decorator.keywords if k.arg == "size_hints"), "")
    start = next(d.lineno for d in function.decorator_list if ast.unparse(d) == "triton.jit")
    lines = text.splitlines()[start - 1 : function.end_lineno]
    return _Kernel(name, "\n".join(lines), heuristic, hints)


def _count(found: Generated, kernel: str) -> int:
    return sum(launch.kernel == kernel for launch in found.launches)


# The launcher ------------------------------------------------------------------------------------------


def _launcher(source: str, chosen: dict[str, Launch]) -> tuple[str, list[str]]:
    """Inductor's `call` as plain PyTorch and Triton, and what it calls its inputs."""
    calls = [n for n in ast.walk(ast.parse(source)) if isinstance(n, ast.FunctionDef) and n.name == "call"]
    if len(calls) != 1:
        raise UserError(f"torch.compile wrote {len(calls)} functions that launch: only one can be exported")
    inputs: list[str] = []
    lines: list[str] = []
    for statement in _flat(calls[0].body):
        if isinstance(statement, ast.Assign) and ast.unparse(statement.value) == "args":
            (target,) = statement.targets
            inputs = [ast.unparse(e) for e in target.elts] if isinstance(target, ast.Tuple) else [ast.unparse(target)]
        else:
            lines += _line(statement, chosen, inputs)
    return "\n".join(lines), inputs


def _flat(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    for statement in body:
        if isinstance(statement, ast.With):
            yield from _flat(statement.body)
        else:
            yield statement


def _line(statement: ast.stmt, chosen: dict[str, Launch], inputs: list[str]) -> Iterator[str]:
    text = ast.unparse(statement)
    called = _called(statement)
    if isinstance(statement, ast.Delete) or called in _SKIPPED:
        return
    if isinstance(statement, ast.Return):
        values = statement.value.elts if isinstance(statement.value, ast.Tuple) else []
        yield f"return {', '.join(_plain(ast.unparse(value)) for value in values)}"
    elif called.endswith(".run") and isinstance(statement, ast.Expr):
        assert isinstance(statement.value, ast.Call)
        launch = chosen[called.removesuffix(".run")]
        given = [_plain(ast.unparse(a)) for a in statement.value.args]
        named = {**launch.config["constexprs"], **{k: launch.config[k] for k in ("num_warps", "num_stages")}}
        given += [f"{name}={value!r}" for name, value in named.items()]
        grid = launch.grid[: max(at for at, n in enumerate(launch.grid, 1) if n > 1 or at == 1)]
        yield f"{launch.kernel}[{grid!r}]({', '.join(given)})"
    elif called == "empty_strided_cuda":
        assert isinstance(statement, ast.Assign)
        assert isinstance(statement.value, ast.Call)
        size, stride, dtype = map(ast.unparse, statement.value.args)
        made = f"torch.empty_strided({size}, {stride}, dtype={dtype}, device={inputs[0]}.device)"
        yield f"{ast.unparse(statement.targets[0])} = {made}"
    elif called.startswith("extern_kernels.") or called == "reinterpret_tensor" or _renames(statement):
        yield _plain(text)
    else:
        raise UserError(f"torch.compile's code does what no op file can: {text.splitlines()[0]}")


def _called(statement: ast.stmt) -> str:
    value = statement.value if isinstance(statement, (ast.Expr, ast.Assign)) else None
    return ast.unparse(value.func) if isinstance(value, ast.Call) else ""


def _renames(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Name)


def _plain(text: str) -> str:
    return text.replace("extern_kernels.", "torch.").replace("reinterpret_tensor(", "torch.as_strided(")


# The op ------------------------------------------------------------------------------------------------


def _declaration(op: Op, case: Case) -> str:
    described = []
    for name, arg in op.args.items():
        if arg.is_index or arg.optional:
            raise UserError(f"{op.name} takes the index or optional tensor {name}: only plain tensors can be exported")
        described.append(f"{name}=kl.tensor({' '.join(arg.dims)!r})")
    sizes: dict[str, Any] = {"shape": [case.shape]} if ELLIPSIS in case.dims else {k: [v] for k, v in case.dims.items()}
    cases = ", ".join(f"{k}={v!r}" for k, v in {**sizes, "dtype": [case.dtype]}.items())
    options = {name: [value] for name, value in op.call_options(case).items()}
    parts = [f"args=dict({', '.join(described)})", f"cases=kl.cases({cases})"]
    parts += [f"options={options!r}"] if options else []
    parts += [f"reduces={' '.join(op.reduces)!r}"] if op.reduces else []
    return ", ".join(parts)


def _reference(op: Op) -> str:
    """The reference's own text, without what decorates it."""
    text = textwrap.dedent(inspect.getsource(op.reference))
    (function,) = ast.parse(text).body
    assert isinstance(function, ast.FunctionDef)
    function.decorator_list = []
    names = [n for n in ast.walk(function) if isinstance(n, ast.Name)]
    own = {a.arg for a in ast.walk(function) if isinstance(a, ast.arg)}
    own |= {n.id for n in names if isinstance(n.ctx, ast.Store)}
    strangers = {n.id for n in names} - own - _KNOWN - set(dir(builtins))
    if strangers:
        raise UserError(
            f"the reference of {op.name} uses {', '.join(sorted(strangers))} of its file: export it by hand"
        )
    lines = text.splitlines()[function.lineno - 1 : function.end_lineno]
    return "\n".join([lines[0].replace(f"def {function.name}(", f"def {op.name}(", 1), *lines[1:]])


def _signature(op: Op) -> str:
    parameters = inspect.signature(op.reference).parameters.values()
    return str(inspect.Signature([p.replace(annotation=inspect.Parameter.empty) for p in parameters])).strip("()")
