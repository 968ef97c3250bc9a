"""Tables of implementations for tests: small tensors on the CPU are served by the kernels, not by PyTorch."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from kernellab.base.paths import cache_dir
from kernellab.library import operators

OPERATORS = {name.lower(): value for name, value in vars(operators).items() if isinstance(value, operators.Operator)}
# Dropout draws anew in every call: PyTorch serves it in compiled code, and no call is repeated.
DETERMINISTIC = OPERATORS.keys() - {"dropout_add"}
# A matmul takes longer than the host: there is no CUDA C++ for these, and their calls are not repeated.
WITH_MATMUL = {"linear_gelu", "linear_cross_entropy"}
REPEATED = DETERMINISTIC - WITH_MATMUL
DTYPES = ("float32", "float64", "bfloat16", "float16")


def rule(op: str, forward: str = "cpp", backward: str = "cpp", **limits: int) -> str:
    lines = [f"[[{op}]]", f"dtypes = {list(DTYPES)}", f'forward = "{forward}"', f'backward = "{backward}"']
    return "\n".join([*lines, *(f"{name} = {value}" for name, value in limits.items())]) + "\n"


@contextlib.contextmanager
def own_table(text: str, name: str = "cpu") -> Iterator[None]:
    """The table of a user, as long as the context lasts."""
    path = cache_dir("tables") / f"{name}.toml"
    before = path.read_text() if path.exists() else ""
    try:
        path.write_text(text)
        _read_tables()
        yield
    finally:
        path.write_text(before)
        _read_tables()


def _read_tables() -> None:
    for operator in OPERATORS.values():
        operator.choice.read_tables()


def kernels_serve() -> contextlib.AbstractContextManager[None]:
    """On the CPU the C++ kernels serve, whatever the sizes."""
    return own_table("".join(rule(op) for op in OPERATORS))
