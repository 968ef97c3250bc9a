"""Writes an op file from the code that `torch.compile` generated: plain Triton kernels and explicit launches.

Comments explain inductor's decisions: block, warps and size hints. Sizes are compiled in. The file works unchanged, and
an author can go on from there.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import math
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass

from kernellab.base.errors import UserError
from kernellab.capture.inductor import GeneratedCode
from kernellab.capture.launch import Launch
from kernellab.declaration.arguments import Arg
from kernellab.declaration.case import ELLIPSIS, Case
from kernellab.declaration.op import Op

_HELPERS = {
    "triton_helpers": "from torch._inductor.runtime import triton_helpers",
    "libdevice": "from torch._inductor.runtime.triton_helpers import libdevice",
    "tl_math": "from torch._inductor.runtime.triton_helpers import math as tl_math",
}
_IMPORTED = {"torch", "math"}  # modules that a reference may use: the file imports them
# Statements of inductor's function that an ordinary launcher does not need.
_SKIPPED = (
    *("args.clear", "assert_size_stride", "assert_alignment", "copy_if_misaligned", "get_raw_stream"),
    "torch.cuda.set_device",
)


def write_op_file(op: Op, case: Case, generated: GeneratedCode, *, ran: bool, interpreter_limit: int) -> str:
    """The text of the file. Raises `UserError` if the generated code does something that an op file cannot.

    `ran`: the launches ran on a GPU, in the tuned configuration. `interpreter_limit` is the largest number of elements
    of an input for which Triton's interpreter can run the kernels without a GPU.
    """
    kernels = {kernel.name: kernel for kernel in _find_kernels(generated.source)}
    if not kernels:
        raise UserError(f"torch.compile generated no Triton kernel for {op.name}: there is nothing to export")
    launches: dict[str, Launch] = {}
    for launch in generated.launches:
        launches.setdefault(launch.kernel, launch)
    body, inputs = _write_launcher(generated.source, launches)
    if len(inputs) != len(op.args):
        raise UserError(f"torch.compile's code has {len(inputs)} inputs, but {op.name} has {len(op.args)}")
    texts = [
        kernel.write(launches[name], _count_configurations(generated, name), ran=ran)
        for name, kernel in kernels.items()
        if name in launches
    ]
    kernel_text = "\n\n\n".join(texts)
    reference = _write_reference(op)
    renamings = [f"    {theirs} = {ours}" for theirs, ours in zip(inputs, op.args, strict=True) if theirs != ours]
    needs_gpu = _count_elements(op, case) > interpreter_limit
    return _FILE.format(
        name=op.name,
        label=case.label,
        arch=next(iter(launches.values())).arch,
        imports="".join(f"{line}\n" for name, line in _HELPERS.items() if name in kernel_text),
        declaration=_write_declaration(op, case),
        math="import math\n\n" if "math." in reference else "",
        reference=reference,
        shape=case.shape,
        size=case.size_label,
        note=_NEEDS_GPU.format(limit=interpreter_limit, name=op.name) if needs_gpu else "",
        dtype=case.dtype,
        signature=_write_signature(op),
        unpack="\n".join(renamings),
        body=textwrap.indent(body, "    "),
        kernels=kernel_text,
    )


_FILE = '''"""{name}: the code of torch.compile for {arch} at {label}, exported by klab inspect.

klab run checks and times it beside the reference and torch.compile. Sizes are compiled in: other cases are refused.
Change it by hand as you like.
{note}"""

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


_NEEDS_GPU = """
Checking and timing it needs a GPU: without one Triton's interpreter runs inputs of up to {limit} elements only.
For a file that can be checked anywhere: klab inspect {name} --impl compile --export FILE --shape with a smaller shape.
"""


def _count_elements(op: Op, case: Case) -> int:
    return max(math.prod(op.sizes(arg, case)) for arg in op.args.values())


# The kernels -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Kernel:
    """A kernel of the generated module: its text, and the heuristic and size hints of its decorator."""

    name: str
    text: str
    heuristic: str
    size_hints: str

    def write(self, launch: Launch, configurations: int, *, ran: bool) -> str:
        """The kernel below comments that explain its configuration."""
        blocks = ", ".join(f"{name} = {value}" for name, value in launch.constants.items())
        lines = [
            f"a kernel of inductor's kind {self.heuristic!r}; size hints, rounded up: {self.size_hints}",
            f"{blocks or 'no block size'}: the elements that one program handles along that axis",
            f"num_warps = {launch.config['num_warps']}: these elements are shared by {launch.threads} threads",
            f"grid = {launch.grid}: one program for each block of the output",
        ]
        if ran:
            lines.append("the configuration that ran")
        elif configurations > 1:
            lines.append(f"the first of {configurations} configurations that inductor would time on a GPU")
        return "\n".join(f"# {line}" for line in lines) + f"\n{self.text.strip()}"


def _find_kernels(source: str) -> Iterator[_Kernel]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "async_compile.triton":
            name, text = (a.value for a in node.args[:2] if isinstance(a, ast.Constant))
            yield _parse_kernel(str(name), str(text))


def _parse_kernel(name: str, text: str) -> _Kernel:
    (function,) = (n for n in ast.parse(text).body if isinstance(n, ast.FunctionDef))
    heuristic, hints = "", ""
    for decorator in function.decorator_list:
        if isinstance(decorator, ast.Call):
            heuristic = ast.unparse(decorator.func).rpartition(".")[2]
            hints = next((ast.unparse(k.value) for k in decorator.keywords if k.arg == "size_hints"), "")
    start = next(d.lineno for d in function.decorator_list if ast.unparse(d) == "triton.jit")
    lines = text.splitlines()[start - 1 : function.end_lineno]
    return _Kernel(name, "\n".join(lines), heuristic, hints)


def _count_configurations(generated: GeneratedCode, kernel: str) -> int:
    return sum(launch.kernel == kernel for launch in generated.launches)


# The launcher ------------------------------------------------------------------------------------------


def _write_launcher(source: str, launches: dict[str, Launch]) -> tuple[str, list[str]]:
    """Inductor's function `call` as plain PyTorch and Triton, and the names of its inputs."""
    calls = [n for n in ast.walk(ast.parse(source)) if isinstance(n, ast.FunctionDef) and n.name == "call"]
    if len(calls) != 1:
        raise UserError(f"torch.compile generated {len(calls)} functions that launch: only one can be exported")
    inputs: list[str] = []
    lines: list[str] = []
    for statement in _flatten(calls[0].body):
        if isinstance(statement, ast.Assign) and ast.unparse(statement.value) == "args":
            (target,) = statement.targets
            inputs = [ast.unparse(e) for e in target.elts] if isinstance(target, ast.Tuple) else [ast.unparse(target)]
        else:
            lines += _write_statement(statement, launches, inputs)
    return "\n".join(lines), inputs


def _flatten(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a body without its `with` blocks."""
    for statement in body:
        if isinstance(statement, ast.With):
            yield from _flatten(statement.body)
        else:
            yield statement


def _write_statement(statement: ast.stmt, launches: dict[str, Launch], inputs: list[str]) -> Iterator[str]:
    text = ast.unparse(statement)
    called = _name_called(statement)
    if isinstance(statement, ast.Delete) or called in _SKIPPED:
        return
    if isinstance(statement, ast.Return):
        values = statement.value.elts if isinstance(statement.value, ast.Tuple) else []
        yield f"return {', '.join(_to_plain_torch(ast.unparse(value)) for value in values)}"
    elif called.endswith(".run") and isinstance(statement, ast.Expr):
        assert isinstance(statement.value, ast.Call)
        launch = launches[called.removesuffix(".run")]
        arguments = [_to_plain_torch(ast.unparse(a)) for a in statement.value.args]
        keywords = {**launch.constants, **{k: launch.config[k] for k in ("num_warps", "num_stages")}}
        arguments += [f"{name}={value!r}" for name, value in keywords.items()]
        grid = launch.grid[: max(i for i, n in enumerate(launch.grid, 1) if n > 1 or i == 1)]
        yield f"{launch.kernel}[{grid!r}]({', '.join(arguments)})"
    elif called == "empty_strided_cuda":
        assert isinstance(statement, ast.Assign)
        assert isinstance(statement.value, ast.Call)
        size, stride, dtype = map(ast.unparse, statement.value.args)
        empty = f"torch.empty_strided({size}, {stride}, dtype={dtype}, device={inputs[0]}.device)"
        yield f"{ast.unparse(statement.targets[0])} = {empty}"
    elif called.startswith("extern_kernels.") or called == "reinterpret_tensor" or _is_alias(statement):
        yield _to_plain_torch(text)
    else:
        raise UserError(f"torch.compile's code has a statement that cannot be exported: {text.splitlines()[0]}")


def _name_called(statement: ast.stmt) -> str:
    """The name of the function that a statement calls; empty if it calls none."""
    value = statement.value if isinstance(statement, (ast.Expr, ast.Assign)) else None
    return ast.unparse(value.func) if isinstance(value, ast.Call) else ""


def _is_alias(statement: ast.stmt) -> bool:
    """Whether a statement is of the form `buf1 = buf0`."""
    return isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Name)


def _to_plain_torch(text: str) -> str:
    return text.replace("extern_kernels.", "torch.").replace("reinterpret_tensor(", "torch.as_strided(")


# The op ------------------------------------------------------------------------------------------------


def _write_declaration(op: Op, case: Case) -> str:
    """The arguments of `kl.op` for this one case."""
    tensors = []
    for name, arg in op.args.items():
        if arg.is_index or arg.optional:
            raise UserError(f"{op.name} takes the index or optional tensor {name}: only plain tensors can be exported")
        tensors.append(f"{name}={_write_tensor(op, name, arg)}")
    sizes: dict[str, object] = {k: [v] for k, v in case.dims.items()}
    if ELLIPSIS in case.dims:
        sizes = {"shape": [case.shape]}
    cases = ", ".join(f"{k}={v!r}" for k, v in {**sizes, "dtype": [case.dtype]}.items())
    options = {name: [value] for name, value in op.call_options(case).items()}
    parts = [f"args=dict({', '.join(tensors)})", f"cases=kl.cases({cases})"]
    parts += [f"options={options!r}"] if options else []
    parts += [f"reduces={' '.join(op.reduces)!r}"] if op.reduces else []
    return ", ".join(parts)


def _write_tensor(op: Op, name: str, arg: Arg) -> str:
    """The input as its author describes it."""
    words = [repr(" ".join(arg.dims))]
    values = getattr(arg.values, "expression", None)
    if arg.values is not None and values is None:
        raise UserError(f"{op.name} makes the values of {name} with a function: only plain tensors can be exported")
    words += [f"values={values}"] if values else []
    words += [f"dtype={arg.dtype!r}"] if arg.dtype and arg.dtype != "bool" else []
    words += ["gradient=False"] if not arg.gradient and arg.is_float else []
    words += ["contiguous=True"] if arg.contiguous else []
    return f"kl.{'mask' if arg.dtype == 'bool' else 'tensor'}({', '.join(words)})"


def _write_reference(op: Op) -> str:
    """The source text of the reference, without decorators."""
    text = textwrap.dedent(inspect.getsource(op.reference))
    (function,) = ast.parse(text).body
    assert isinstance(function, ast.FunctionDef)
    function.decorator_list = []
    names = [n for n in ast.walk(function) if isinstance(n, ast.Name)]
    own = {a.arg for a in ast.walk(function) if isinstance(a, ast.arg)}
    own |= {n.id for n in names if isinstance(n.ctx, ast.Store)}
    missing = {n.id for n in names} - own - _IMPORTED - set(dir(builtins))
    if missing:
        raise UserError(
            f"the reference of {op.name} uses {', '.join(sorted(missing))} from its file: only a reference that needs "
            "nothing but torch and math can be exported"
        )
    lines = text.splitlines()[function.lineno - 1 : function.end_lineno]
    return "\n".join([lines[0].replace(f"def {function.name}(", f"def {op.name}(", 1), *lines[1:]])


def _write_signature(op: Op) -> str:
    parameters = inspect.signature(op.reference).parameters.values()
    return str(inspect.Signature([p.replace(annotation=inspect.Parameter.empty) for p in parameters])).strip("()")
