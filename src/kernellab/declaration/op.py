"""Op and Impl: an operation as its author declares it, and one implementation of it.

Imports no torch, runs no implementation and does not know how results are judged.
"""

from __future__ import annotations

import copy
import inspect
import itertools
import math
import sys
import traceback
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from kernellab.base.errors import UserError, nearest
from kernellab.base.functions import AnyFunction
from kernellab.declaration import validation
from kernellab.declaration.arguments import Arg, CostFunction, ValueFunction
from kernellab.declaration.case import ELLIPSIS, Case, Size, jsonable, parse_dtype
from kernellab.declaration.case_request import CaseRequest
from kernellab.declaration.case_table import CaseLists, CaseTable
from kernellab.declaration.compiled import Compiled
from kernellab.declaration.documents import CaseJson, PeerLibraryJson
from kernellab.declaration.expansion import Dims, choose_options
from kernellab.declaration.kinds import Kind, kind_of, match_names
from kernellab.vocabulary.dims import is_derived, names_in, obstacle, size_of

_MOST_COMBINATIONS = 4096  # of option values
_WIDEST_COPY = 4  # elements that a copy of a strided tensor may span, per element

Supports = Callable[[Case], "bool | str"]

# The last one is called before an op gets another implementation.
extension_listeners: list[Callable[[Op], None]] = []


@dataclass(eq=False)
class Impl:
    """One implementation of an op; call it like the function it wraps."""

    op: Op
    name: str
    fn: AnyFunction
    kind: Kind
    supports: Supports | None = None
    mutates: frozenset[str] = frozenset()
    grad_in_forward: bool = False
    study: bool = False  # for comparison, not for use: it runs only when a request names it
    flaw: str = ""  # what is wrong with it on purpose
    repeatable: bool = True  # every call returns the same bits; False for kernels that use atomics
    clone: bool = False  # it overwrites its inputs, and is called with copies
    contiguous: frozenset[str] = frozenset()  # inputs that it takes only contiguous
    random: bool = False  # it draws random numbers of its own, whatever the op's seed is: it is judged statistically
    file: Path = Path()  # that registered it

    # What an author's function takes and returns is the author's choice.
    def __call__(self, *args: Any, **options: Any) -> Any:  # type: ignore[explicit-any]
        return self.fn(*(map(copy_of, args) if self.clone else args), **options)

    @property
    def changes_inputs(self) -> bool:
        """Whether its function changes the inputs it is called with."""
        return bool(self.changed_inputs)

    @property
    def changed_inputs(self) -> frozenset[str]:
        """The inputs that its function may change: those that `mutates=` names, with `clone=True` all."""
        return frozenset(self.op.args) if self.clone else self.mutates

    def refusal(self, case: Case) -> str | None:
        """The reason why this implementation does not support the case; None if it does."""
        if self.supports is None:
            return None
        answer: object = self.supports(case)
        if answer is True:
            return None
        if not isinstance(answer, (bool, str)):
            return f"its supports= returned a {type(answer).__name__}, neither True nor a reason"
        return str(answer) if answer else "outside its declared domain"

    def __repr__(self) -> str:
        return f"<{self.op.name}[{self.name!r}]>"


def copy_of(value: object) -> object:
    """A copy of a tensor that may be overwritten; anything else is returned as it is.

    It has the same strides, unless elements share memory or lie far apart.
    """
    if not isinstance(value, _Tensor):
        return value
    sizes, strides = value.size(), value.stride()
    span = 1 + sum((n - 1) * s for n, s in zip(sizes, strides, strict=True))
    shared = any(n > 1 and s == 0 for n, s in zip(sizes, strides, strict=True))
    if shared or span > _WIDEST_COPY * max(1, math.prod(sizes)):
        return value.clone()
    return value.new_empty_strided(sizes, strides).copy_(value)


@runtime_checkable
class _Tensor(Protocol):
    """A tensor, as far as copying it matters here: this module imports no torch."""

    def size(self) -> tuple[int, ...]: ...
    def stride(self) -> tuple[int, ...]: ...
    def clone(self) -> object: ...
    def copy_(self, other: object) -> object: ...
    def new_empty_strided(self, size: Sequence[int], stride: Sequence[int]) -> _Tensor: ...


class Op:
    """A mathematical function: its reference, inputs, options, cost, and the implementations of it."""

    def __init__(
        self,
        reference: AnyFunction,
        *,
        name: str | None = None,
        args: Mapping[str, Arg] | None = None,
        values: Mapping[str, ValueFunction] | None = None,
        options: Mapping[str, Sequence[object]] | None = None,
        dims: Mapping[str, str | int] | None = None,
        where: Callable[[Case], bool] | None = None,
        reduces: str = "",
        cost: CostFunction | None = None,
        grad_cost: CostFunction | None = None,
        cases: CaseTable | None = None,
        dtypes: Sequence[str] = (),
        seed: str | None = None,
        manual: bool = True,
        any_strides: bool = False,
    ) -> None:
        self.reference = reference
        self.name = validation.read_name(name, reference)
        for keyword, value in (("where", where), ("cost", cost), ("grad_cost", grad_cost)):
            validation.require_function(f"op {self.name}", keyword, value)
        if cases is not None and not isinstance(cases, CaseTable):
            raise UserError(f"op {self.name}: cases= is a {type(cases).__name__}: write cases=kl.cases(shape=…)")
        self.doc = inspect.getdoc(reference) or ""
        self.file = Path(inspect.getsourcefile(reference) or "<unknown>")
        self.where = where
        self.cost = cost
        self.grad_cost = grad_cost
        self.default_cases = cases
        self.any_strides = any_strides
        case_dtypes = cases.dtypes if cases is not None else ()
        self.dtypes = validation.read_dtypes(self.name, dtypes or case_dtypes or ("float32",))
        self._read_signature(args, {} if values is None else values, options)
        self._read_dims({} if dims is None else dims, reduces)
        validation.check_indices(self.name, self.args, self.dims, self.options)
        self.seed = validation.read_seed(self.name, seed, self.options)
        self.extension: Path | None = None  # the file that added implementations to another file's op
        self.peers: dict[str, PeerLibraryJson] = {}  # the libraries whose kernels were asked for
        self.impls: dict[str, Impl] = {}
        if manual:
            self.impls["manual"] = Impl(self, "manual", reference, kind_of("manual"), file=self.file)
        self.impls["compile"] = self._compiled(reference, {})

    def _read_signature(
        self,
        args: Mapping[str, Arg] | None,
        values: Mapping[str, ValueFunction],
        options: Mapping[str, Sequence[object]] | None,
    ) -> None:
        parameters = inspect.signature(self.reference).parameters.values()
        tensors = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        if not tensors:
            raise UserError(f"op {self.name} takes no tensor: its positional parameters are its inputs")
        default_args = dict.fromkeys(tensors, Arg((ELLIPSIS,)))
        self.args = validation.read_args(self.name, default_args if args is None else args)
        if list(self.args) != tensors:
            raise UserError(
                f"op {self.name}: args= describes {', '.join(self.args)}, the function takes {', '.join(tensors)}"
            )
        self.args = validation.read_values(self.name, values, self.args)
        keywords = validation.keywords_of(self.reference)
        self.options = validation.read_options(self.name, {} if options is None else options, keywords)
        # Whether an optional tensor is given is a further option. Its default is False.
        self.presence_options: dict[str, list[object]] = {
            name: [False, True] for name, arg in self.args.items() if arg.optional
        }
        combinations = math.prod(len(values) for values in self.all_options().values())
        if combinations > _MOST_COMBINATIONS:
            raise UserError(
                f"op {self.name}: its options {', '.join(self.all_options())} have {combinations} combinations, and a "
                f"check tries every one: at most {_MOST_COMBINATIONS}"
            )

    def _read_dims(self, defaults: Mapping[str, str | int], reduces: str) -> None:
        written = dict.fromkeys(dim for arg in self.args.values() for dim in arg.dims)
        self._derived = tuple(dim for dim in written if is_derived(dim))
        names = dict.fromkeys(name for dim in written for name in names_in(dim))
        if self._derived:
            declared = self.where
            self.where = lambda case: self._missing_size(case) is None and (declared is None or declared(case))
        self.reduces = validation.read_reduced_dims(self.name, reduces, names)
        self.dim_defaults = validation.read_dim_defaults(self.name, defaults, names)
        free = (dim for dim in names if dim not in defaults)
        self.dims = (*free, *(dim for dim in names if dim in defaults))

    # Implementations -----------------------------------------------------------------------------------

    def impl(
        self,
        name: str,
        *,
        kind: str | None = None,
        supports: Supports | None = None,
        mutates: Sequence[str] = (),
        grad_in_forward: bool = False,
        study: bool = False,
        flaw: str = "",
        repeatable: bool = True,
        clone: bool = False,
        contiguous: Sequence[str] = (),
        random: bool = False,
    ) -> Callable[[AnyFunction], AnyFunction]:
        """Register an implementation: `@op.impl("triton", supports=lambda case: case.N <= 65536 or "too wide")`."""
        file = Path(sys._getframe(1).f_code.co_filename)
        if not isinstance(name, str):
            raise UserError(f'an implementation of {self.name} has no name: write @{self.name}.impl("name")')
        if name in self.impls:
            raise UserError(f"op {self.name} already has an implementation named {name}: give this one another name")
        label = f"implementation {name} of {self.name}"
        validation.require_function(label, "supports", supports)
        for keyword, names in (("mutates", mutates), ("contiguous", contiguous)):
            for arg in validation.read_names(label, keyword, names, next(iter(self.args))):
                if arg not in self.args:
                    raise UserError(f"{label}: {keyword}= names {arg}: {nearest(arg, self.args)}")
        if clone and mutates:
            raise UserError(f"{label}: with clone=True it is called with copies, and mutates= is not needed: remove it")
        if flaw and not study:
            raise UserError(f"{label} is wrong on purpose (flaw=), so nobody should get it unasked: add study=True")
        if random and self.seed is None:
            raise UserError(
                f"{label}: random=True, but {self.name} does not say which of its options seeds the reference's random "
                'numbers: declare it, kl.op(…, seed="seed")'
            )

        def register(fn: AnyFunction) -> AnyFunction:
            if not callable(fn):
                raise UserError(f"{label} is a {type(fn).__name__}, not a function")
            self._add(
                Impl(
                    self,
                    name,
                    fn,
                    kind_of(name, kind),
                    supports=supports,
                    mutates=frozenset(mutates),
                    grad_in_forward=grad_in_forward,
                    study=study,
                    flaw=flaw,
                    repeatable=repeatable,
                    clone=clone,
                    contiguous=frozenset(contiguous),
                    random=random,
                    file=file,
                )
            )
            return fn

        return register

    def _add(self, impl: Impl) -> None:
        if extension_listeners:
            extension_listeners[-1](self)
        self.impls[impl.name] = impl

    def compile(self, fn: AnyFunction, *, supports: Supports | None = None, **settings: object) -> AnyFunction:
        """Compile this function, with these `torch.compile` settings, in place of the reference."""
        validation.require_function(f"implementation compile of {self.name}", "supports", supports)
        self._add(self._compiled(fn, settings, supports))
        return fn

    def _compiled(self, fn: AnyFunction, settings: Mapping[str, object], supports: Supports | None = None) -> Impl:
        compiled = Compiled(fn, **settings)
        return Impl(self, "compile", compiled, kind_of("compile"), supports=supports, file=self.file)

    def copy(self) -> Op:
        """The same op with its own table of implementations."""
        twin = copy.copy(self)
        twin.impls = {name: replace(impl, op=twin) for name, impl in self.impls.items()}
        return twin

    def select_impls(self, patterns: Collection[str]) -> list[Impl]:
        """The implementations that the patterns name; without patterns, all but the studies."""
        if not patterns:
            return [impl for impl in self.impls.values() if not impl.study]
        names = {name for pattern in patterns for name in match_names(pattern, self.impls)}
        return [impl for impl in self.impls.values() if impl.name in names]

    def __getitem__(self, name: str) -> Impl:
        if name not in self.impls:
            raise UserError(f"op {self.name} has no implementation {name}: {nearest(name, self.impls)}")
        return self.impls[name]

    def __call__(self, *args: Any, **options: Any) -> Any:  # type: ignore[explicit-any]
        return self.reference(*args, **options)

    def __repr__(self) -> str:
        return f"<op {self.name}: {', '.join(self.impls)}>"

    # Cases ---------------------------------------------------------------------------------------------

    def all_options(self) -> dict[str, list[object]]:
        """The options, and whether each optional tensor is given; the first value of each is the default."""
        return {**self.options, **self.presence_options}

    def case(self, data: CaseJson) -> Case:
        """A case from JSON. Option values are replaced by the declared values that they stand for, such as tuples."""
        case = Case.from_json(data)
        options = {}
        for name, value in case.options.items():
            declared = self.all_options().get(name, [])
            matches = (v for v in declared if jsonable(v) == value and isinstance(v, bool) is isinstance(value, bool))
            options[name] = next(matches, value)
        return case.with_(options=options)

    def call_options(self, case: Case) -> dict[str, object]:
        """The keyword arguments of a call at this case."""
        return {k: v for k, v in case.options.items() if k in self.options}

    def sizes(self, arg: Arg, case: Case) -> tuple[int, ...]:
        """The sizes of an argument at a case."""
        sizes: list[int] = []
        for dim in arg.dims:
            size = size_of(dim, case.dims)
            sizes.extend(size if isinstance(size, tuple) else (size,))
        return tuple(sizes)

    @property
    def gradient_args(self) -> tuple[str, ...]:
        """The inputs that take a gradient: floats, unless they are declared without one."""
        return tuple(name for name, arg in self.args.items() if arg.takes_gradient)

    def dtype_of(self, arg: Arg, case: Case) -> str:
        """The dtype of an argument at a case."""
        return "int64" if arg.is_index else arg.dtype or case.dtype

    def index_bound(self, arg: Arg, case: Case) -> int:
        """The exclusive upper bound of an index argument's values."""
        bound = size_of(arg.below, case.dims) if isinstance(arg.below, str) else arg.below
        assert isinstance(bound, int)
        return bound

    def sentinel(self, arg: Arg, case: Case) -> int | None:
        """The sentinel among the values of an index argument, if it has one."""
        value = case.options.get(arg.sentinel) if isinstance(arg.sentinel, str) else arg.sentinel
        return int(value) if isinstance(value, (int, float)) else None

    def expand(self, request: CaseRequest, device_type: str) -> list[Case]:
        """The cases of a request on a device type. An option that it does not name has its first value."""
        lists = self.default_cases.on(device_type) if self.default_cases else CaseLists()
        if request.quick:
            lists = lists.first()
        defaults = self.dtypes[:1] if lists.dtypes is None else lists.dtypes
        dtypes = [parse_dtype(dtype) for dtype in request.dtypes or defaults]
        expanded = [
            Case(sizes, dtype, options, device=device_type)
            for sizes in Dims(self.name, self.dims, self.dim_defaults).expand(request, lists)
            for dtype in dtypes
            for options in choose_options(self.name, self.all_options(), request)
        ]
        defined = [case for case in expanded if self._is_defined_at(case)]
        if expanded and not defined:
            reason = self._missing_size(expanded[0]) or "its where= refuses it"
            raise UserError(f"op {self.name} is not defined for {expanded[0].size_label}: {reason}")
        return defined

    def resize(self, case: Case, sizes: Mapping[str, Size]) -> Case:
        """The case with other sizes of some dims. A dim that has the size of its default dim continues to follow it."""
        dims = {**case.dims, **sizes}
        for dim, source in self.dim_defaults.items():
            if dim not in sizes and isinstance(source, str) and case.dims[dim] == case.dims[source]:
                dims[dim] = dims[source]
        return case.with_(dims=dims)

    def option_variants(self, case: Case) -> list[Case]:
        """The case, then the case with every other combination of option values. A check covers them all."""
        names = self.all_options()
        variants = [case]
        for values in itertools.product(*names.values()):
            variant = case.with_(options=dict(zip(names, values, strict=True)))
            if variant.key != case.key and self._is_defined_at(variant):
                variants.append(variant)
        return variants

    def _missing_size(self, case: Case) -> str | None:
        """Why a derived dim has no size at a case: `D/2` for an odd D."""
        return next(filter(None, (obstacle(dim, case.dims) for dim in self._derived)), None)

    def _is_defined_at(self, case: Case) -> bool:
        try:
            return self.where is None or bool(self.where(case))
        except Exception as error:
            message = "".join(traceback.format_exception_only(error)).strip()
            raise UserError(f"op {self.name}: where= failed at {case.label}: {message}") from error
