"""Kernels of other libraries as implementations of the shipped ops, one file per library.

`klab bench softmax --peers` executes these files in its workers and adds what they declare: functions with the op's
signature that call the library. To add a library, add a file that makes one `PeerLibrary`. The ops do not know these
files. The parent process reads their names only. `_passes` has what the files share.

A function calls the library as its users do, and adds only what the op demands: a shape, a dtype, a backward where the
library has its kernel but no autograd. What a library states as a limit is declared in `supports=`, with the sentence;
inputs that it overwrites, in `mutates=`. Each file names the version whose source was read.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

# The help of `klab` reads the names of the libraries: what executes their files is imported where it is used.
if TYPE_CHECKING:
    from kernellab.base.functions import AnyFunction
    from kernellab.declaration.case import Case
    from kernellab.declaration.documents import PeerLibraryJson
    from kernellab.declaration.op import Op, Supports
    from kernellab.declaration.targets import Target

FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class _Adapter:
    """A function with an op's signature that calls the library, and what `Op.impl` is told of it."""

    fn: AnyFunction
    declaration: dict[str, object]


class PeerLibrary:
    """A library with kernels for shipped ops: `@library.impl("softmax")` above a function with the op's signature.

    `module` is what Python imports, `package` what pip installs, and `install` how: it is said where the module is
    missing. `kind` as in `Op.impl`. `supports` applies to every kernel of the library, before the kernel's own.
    """

    def __init__(
        self, *, module: str, package: str, install: str, kind: str, supports: Supports = lambda case: True
    ) -> None:
        self.file = Path(sys._getframe(1).f_code.co_filename)
        self.name = self.file.stem  # of its implementations
        self.module, self.package, self.install = module, package, install
        self.failed_imports: list[BaseException] = []
        self._kind, self._supports = kind, supports
        self._adapters: dict[str, _Adapter] = {}

    def impl(
        self, op: str, *, supports: Supports = lambda case: True, **declaration: object
    ) -> Callable[[AnyFunction], AnyFunction]:
        """Declare the kernel for an op. `declaration` as in `Op.impl`: mutates=, grad_in_forward=, …"""

        def supports_both(case: Case) -> bool | str:
            answer = self._supports(case)
            return supports(case) if answer is True else answer

        def register(fn: AnyFunction) -> AnyFunction:
            self._adapters[op] = _Adapter(fn, {**declaration, "supports": supports_both})
            return fn

        return register

    @property
    def ops(self) -> list[str]:
        """The names of the ops that it has kernels for."""
        return list(self._adapters)

    def describe(self) -> PeerLibraryJson:
        """Its version, and whether it or something that it needs is not installed.

        An import that fails for another reason is a result of the kernels that need it: it may succeed in another
        process, as that of a library that looks for a GPU does in Triton's interpreter.
        """
        import importlib.metadata

        from kernellab.base.user_code import first_line

        try:
            version = importlib.metadata.version(self.package)
        except importlib.metadata.PackageNotFoundError:  # not installed, or a checkout on the path
            version = None
        problem = None
        missing = [error for error in self.failed_imports if isinstance(error, ModuleNotFoundError)]
        if missing and sys.modules.get(self.module) is None:
            problem = f"{first_line(missing[0])}. To install it: {self.install}"
        return {"package": self.package, "version": version, "problem": problem}

    def add_to(self, op: Op) -> None:
        """Add its kernel to the op's implementations, under the library's name."""
        adapter = self._adapters[op.name]
        op.impl(self.name, kind=self._kind, **adapter.declaration)(adapter.fn)  # type: ignore[arg-type]  # Op checks
        op.impls[self.name].file = self.file


def peer_names() -> list[str]:
    """The names of the peer libraries: the files of their folder, but for those that begin with an underscore."""
    return sorted(path.stem for path in FOLDER.glob("[!_]*.py"))


def load_library(name: str) -> PeerLibrary:
    """Execute a library's file. Imports in it may fail: only kernels that need them cannot run."""
    from kernellab.base.failed_imports import execute

    path = FOLDER / f"{name}.py"
    module = ModuleType(f"kernellab_peer_{name}")
    module.__file__ = str(path)
    failures: list[BaseException] = []
    execute(path, module, failures)
    libraries = [value for value in vars(module).values() if isinstance(value, PeerLibrary)]
    if len(libraries) != 1:
        raise TypeError(f"kernellab/peers/{name}.py declares {len(libraries)} libraries: it needs one")
    libraries[0].failed_imports = failures
    return libraries[0]


def load(target: Target) -> dict[str, Op]:
    """Execute the target's code and return the ops it names, the shipped ones with the kernels of the target's peers.

    Where an op file has an implementation of a library's name, that one stays. A library that is not installed is
    described in `Op.peers`, with what to do.
    """
    from kernellab.base.user_code import PACKAGE
    from kernellab.declaration import targets

    ops = targets.load(target)
    libraries = [load_library(name) for name in target.peers]
    for name, op in ops.items():
        chosen = [library for library in libraries if op.name in library.ops and library.name not in op.impls]
        if chosen and PACKAGE / "ops" in op.file.parents:
            ops[name] = _extend(op, chosen)
    return ops


def _extend(op: Op, libraries: list[PeerLibrary]) -> Op:
    """A copy with the libraries' kernels: the op itself may serve others in this process."""
    op = op.copy()
    op.peers = {library.name: library.describe() for library in libraries}
    for library in libraries:
        if op.peers[library.name]["problem"] is None:
            library.add_to(op)
    return op
