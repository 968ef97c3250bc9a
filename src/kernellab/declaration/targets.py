"""Targets: what a user types to name ops. A name, a file, or `package.module:op`.

`resolve` reads names only. `load` executes the target's code, so only workers call it.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.metadata
import importlib.util
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from kernellab.base.errors import UserError, nearest
from kernellab.base.failed_imports import execute
from kernellab.base.user_code import PACKAGE, user_frames
from kernellab.declaration.declare import collect_ops
from kernellab.declaration.op import Op

ENTRY_POINTS = "kernellab.ops"
_SOURCES = {".py", ".cu", ".cuh", ".cpp", ".hpp", ".h"}


@dataclass(frozen=True)
class Target:
    """`text` is what the user typed, `file` or `module` is where the code is, `op` selects one of its ops.

    `peers` names the libraries whose kernels are added to shipped ops.
    """

    text: str
    module: str = ""
    file: str = ""
    op: str = ""
    peers: Sequence[str] = ()


def shipped_names() -> list[str]:
    """The names of the shipped ops: the folders under `ops`."""
    return sorted(p.parent.name for p in (PACKAGE / "ops").glob("*/__init__.py"))


def offered_ops() -> dict[str, str]:
    """The ops that other packages offer through the entry-point group: name → `package.module:op`."""
    return {e.name: e.value for e in importlib.metadata.entry_points(group=ENTRY_POINTS)}


def resolve(text: str) -> Target:
    """The target that `text` names. Raises a UserError with the names that exist."""
    shipped, offered = shipped_names(), offered_ops()
    if text in shipped:
        if text in offered:
            raise UserError(f"two ops are named {text}: write kernellab.ops.{text}:{text} or {offered[text]}")
        return Target(text, module=f"kernellab.ops.{text}", op=text)
    if text in offered:
        module, _, op = offered[text].partition(":")
        return Target(text, module=module, op=op)
    path, _, op = text.partition(":")
    if path.endswith(".py") or "/" in path:
        if not Path(path).is_file():
            raise UserError(f"no file {path}")
        return Target(text, file=str(Path(path).resolve()), op=op)
    if op:
        return Target(text, module=path, op=op)
    raise UserError(
        f"no op {text!r}: {nearest(text, [*shipped, *offered])} (write the name of an op file with its .py)"
    )


def load(target: Target) -> dict[str, Op]:
    """Execute the target's code and return the ops it names, by name, without peers: see `kernellab.peers.load`."""
    module = None
    failed_imports: list[BaseException] = []
    try:
        with collect_ops() as collected:
            if target.file:
                _execute(Path(target.file), failed_imports)
            else:
                module = importlib.import_module(target.module)
    except UserError as error:
        raise UserError(f"{target.text}: {error.message}", error.detail or user_frames(error)) from error
    except BaseException as error:  # KeyboardInterrupt too: workers have no terminal, so the file raised it
        if failed_imports:  # what failed now may lack what could not be imported
            raise UserError(f"{target.text} could not be loaded", user_frames(failed_imports[0])) from error
        if isinstance(error, ModuleNotFoundError) and target.module and error.name in _prefixes(target.module):
            raise UserError(f"no module {error.name} for {target.text}: is its package installed?") from error
        problem = "has a syntax error" if isinstance(error, SyntaxError) else "could not be loaded"
        raise UserError(f"{target.text} {problem}", user_frames(error)) from error
    ops = collected.ops
    for name in collected.extended:
        ops[name].extension = Path(target.file or str(getattr(module, "__file__", "")))
    if module is not None:
        op = _op_of_module(module, target.op, ops)
        return {op.name: op}
    if not ops and failed_imports:
        raise UserError(f"{target.text} could not be loaded", user_frames(failed_imports[0]))
    if not ops:
        raise UserError(
            f"{target.text} declares no op and adds no implementation to one: put @kl.op above a function "
            "(klab new NAME shows how)"
        )
    if target.op:
        if target.op not in ops:
            raise UserError(f"{target.file} has no op {target.op!r}: {nearest(target.op, ops)}")
        return {target.op: ops[target.op]}
    return ops


def _op_of_module(module: ModuleType, name: str, ops: dict[str, Op]) -> Op:
    op = getattr(module, name, None)
    if isinstance(op, Op) and op.name not in ops:
        return op
    if isinstance(op, Op) or name in ops:
        return ops[op.name if isinstance(op, Op) else name]
    known = [k for k, v in vars(module).items() if isinstance(v, Op)]
    raise UserError(f"{module.__name__} has no op {name!r}: {nearest(name, known)}")


def _execute(path: Path, failed_imports: list[BaseException]) -> None:
    name = f"klab_{path.stem}_{hashlib.sha256(str(path).encode()).hexdigest()[:8]}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    # Last, not first: a file called torch.py beside the op must not shadow the real one.
    folder = str(path.parent)
    if folder not in sys.path:
        sys.path.append(folder)
    execute(path, module, failed_imports)


def _prefixes(module: str) -> set[str]:
    parts = module.split(".")
    return {".".join(parts[: i + 1]) for i in range(len(parts))}


def source_hash(op: Op) -> str:
    """A hash of the op's own sources: its file, the file that extends it, the sources beside them that they may build,
    and the versions of its peers."""
    files = _sources_beside(op.file)
    if op.file.name == "__init__.py":  # an op that is a package owns all of its folder
        files = sorted(f for f in op.file.parent.rglob("*") if f.suffix in _SOURCES)
    if PACKAGE in op.file.parents:  # shipped ops also share the code that moves data
        files += sorted(f for f in (PACKAGE / "ops").iterdir() if f.suffix in _SOURCES)
    if op.extension is not None:
        files += _sources_beside(op.extension)
    files += sorted({impl.file for impl in op.impls.values() if impl.name in op.peers})
    digest = hashlib.sha256()
    for name, peer in op.peers.items():
        digest.update(f"{name} {peer['version']}\0".encode())
    for file in files:
        digest.update(file.name.encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()[:16]


def _sources_beside(python: Path) -> list[Path]:
    """A Python file and the sources of other languages in its folder."""
    return sorted(f for f in python.parent.iterdir() if f.suffix in _SOURCES and (f.suffix != ".py" or f == python))
