"""From what a user types to ops: a name, a file, or `package.module:op`.

Resolving reads names only. Loading executes the target's code, and belongs in a worker.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.metadata
import importlib.util
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from kernellab.base.errors import UserError, nearest
from kernellab.base.user_code import PACKAGE, user_frames
from kernellab.declaration.declare import collect_ops
from kernellab.declaration.op import Op

ENTRY_POINTS = "kernellab.ops"
_SOURCES = {".py", ".cu", ".cuh", ".cpp", ".hpp", ".h"}


@dataclass(frozen=True)
class Target:
    """`text` is what was typed; `file` or `module` says where the code is, `op` which of its ops is meant."""

    text: str
    module: str = ""
    file: str = ""
    op: str = ""


def shipped_names() -> list[str]:
    """The names of the shipped ops: the folders under `ops`."""
    return sorted(p.parent.name for p in (PACKAGE / "ops").glob("*/__init__.py"))


def offered_ops() -> dict[str, str]:
    """The ops that other packages offer through the entry-point group: name → `package.module:op`."""
    return {e.name: e.value for e in importlib.metadata.entry_points(group=ENTRY_POINTS)}


def resolve(text: str) -> Target:
    """What a target means, or a UserError that says what can be named."""
    shipped, offered = shipped_names(), offered_ops()
    if text in shipped:
        if text in offered:
            other = offered[text]
            raise UserError(f"two ops are named {text}: kernellab's own and {other}. Name the other one as {other}")
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
    raise UserError(f"no op {text!r}: {nearest(text, [*shipped, *offered])} (an op file is named with its .py)")


def load(target: Target) -> dict[str, Op]:
    """Execute the target's code and return the ops it means, by name."""
    module = None
    try:
        with collect_ops() as ops:
            if target.file:
                _execute(Path(target.file))
            else:
                module = importlib.import_module(target.module)
    except UserError as error:
        raise UserError(f"{target.text}: {error.message}", error.detail or user_frames(error)) from error
    except BaseException as error:  # KeyboardInterrupt too: workers have no terminal, so it is the file's own
        if isinstance(error, ModuleNotFoundError) and target.module and error.name in _prefixes(target.module):
            raise UserError(f"no module {error.name} for {target.text}: is its package installed?") from error
        problem = "has a syntax error" if isinstance(error, SyntaxError) else "could not be loaded"
        raise UserError(f"{target.text} {problem}", user_frames(error)) from error
    if module is not None:
        op = _op_of_module(module, target.op, ops)
        return {op.name: op}
    if not ops:
        raise UserError(f"{target.text} declares no op: put @kl.op above a function (klab new NAME shows how)")
    if target.op:
        if target.op not in ops:
            raise UserError(f"{target.file} has no op {target.op!r}: {nearest(target.op, ops)}")
        return {target.op: ops[target.op]}
    return ops


def _op_of_module(module: ModuleType, name: str, ops: dict[str, Op]) -> Op:
    op = getattr(module, name, None)
    if isinstance(op, Op):
        return op
    if name in ops:
        return ops[name]
    known = [k for k, v in vars(module).items() if isinstance(v, Op)]
    raise UserError(f"{module.__name__} has no op {name!r}: {nearest(name, known)}")


def _execute(path: Path) -> None:
    name = f"klab_{path.stem}_{hashlib.sha256(str(path).encode()).hexdigest()[:8]}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    # Last, never first: a file called torch.py beside the op must not shadow the real one.
    folder = str(path.parent)
    if folder not in sys.path:
        sys.path.append(folder)
    spec.loader.exec_module(module)


def _prefixes(module: str) -> set[str]:
    parts = module.split(".")
    return {".".join(parts[: i + 1]) for i in range(len(parts))}


def source_hash(op: Op) -> str:
    """A hash of the op's own sources: its file, and the sources beside it that it may build."""
    folder = op.file.parent
    files = sorted(f for f in folder.iterdir() if f.suffix in _SOURCES and (f.suffix != ".py" or f == op.file))
    if op.file.name == "__init__.py":  # an op that is a package owns all of its folder
        files = sorted(f for f in folder.rglob("*") if f.suffix in _SOURCES)
    if PACKAGE in op.file.parents:  # shipped ops also share the code that moves data
        files += sorted(f for f in (PACKAGE / "ops").iterdir() if f.suffix in _SOURCES)
    digest = hashlib.sha256()
    for file in files:
        digest.update(file.name.encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()[:16]
