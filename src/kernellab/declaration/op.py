"""Declaring an operation once: Op, Impl, Cost and the description of its tensors.

Nothing here imports torch, runs an implementation or knows how results are
judged. An op file is executed code: importing it runs whatever stands in it.
"""

from __future__ import annotations

import contextlib
import fnmatch
import inspect
import itertools
import math
import traceback
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernellab.base.errors import UserError, nearest
from kernellab.declaration import validation
from kernellab.declaration.arguments import Arg, Cost, index, optional, tensor
from kernellab.declaration.case import (
    ELLIPSIS,
    Case,
    CaseRequest,
    CaseTable,
    Size,
    bind_shape,
    cases,
    jsonable,
    parse_dtype,
    parse_option,
)

_MOST_COMBINATIONS = 4096  # of option values

__all__ = ["Arg", "Cost", "Impl", "Kind", "Op", "collecting", "index", "kind_of", "op", "optional", "tensor"]


# Ways of computing it ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Kind:
    """What a family of ways needs, per device type: None when it runs, else the reason it does not."""

    name: str
    cpu: str | None
    cuda: str | None
    interpreted_on_cpu: bool = False

    def obstacle(self, device: str) -> str | None:
        return self.cpu if device == "cpu" else self.cuda


KINDS = {
    kind.name: kind
    for kind in (
        Kind("manual", cpu=None, cuda=None),
        Kind("torch", cpu=None, cuda=None),
        Kind("compile", cpu=None, cuda=None),
        Kind("triton", cpu="interpreter time is not speed", cuda=None, interpreted_on_cpu=True),
        Kind("cuda", cpu="needs a GPU", cuda=None),
        Kind("cpp", cpu=None, cuda="runs on the CPU: try --device cpu"),
        Kind("python", cpu=None, cuda=None),
    )
}


def kind_of(name: str, declared: str | None = None) -> Kind:
    """`triton-v2` is of kind triton; a name that says nothing is plain Python calling anything."""
    if declared is not None:
        if declared not in KINDS:
            raise UserError(f"no kind of implementation {declared!r}: {nearest(declared, KINDS)}")
        return KINDS[declared]
    return KINDS.get(name.split("-")[0], KINDS["python"])


def matching(asked: str, names: Collection[str]) -> list[str]:
    """The name that reads as asked, or else those that a shell pattern fits: `triton*`."""
    return [asked] if asked in names else [name for name in names if fnmatch.fnmatchcase(name, asked)]


Supports = Callable[[Case], "bool | str"]


@dataclass(eq=False)
class Impl:
    """One way of computing an op; call it like the function it wraps."""

    op: Op
    name: str
    fn: Callable[..., Any]
    kind: Kind
    supports: Supports | None = None
    mutates: frozenset[str] = frozenset()
    grad_in_forward: bool = False
    study: bool = False  # of interest beside others, not to be used: runs only where it is asked for
    repeatable: bool = True  # bit for bit the same, call after call; atomics are not

    def __call__(self, *args: Any, **options: Any) -> Any:
        return self.fn(*args, **options)

    def refusal(self, case: Case) -> str | None:
        """Why this way does not take the case, or None when it does."""
        if self.supports is None:
            return None
        answer: Any = self.supports(case)
        if answer is True:
            return None
        if not isinstance(answer, (bool, str)):
            return f"its supports= returned a {type(answer).__name__}, neither True nor a reason"
        return str(answer) if answer else "outside its declared domain"

    def __repr__(self) -> str:
        return f"<{self.op.name}[{self.name!r}]>"


class Compiled:
    """`torch.compile` of a function, made at the first call and made anew after `reset`.

    Every size gets its own graph (`dynamic=False`): a case is timed with the code specialised for it.
    """

    def __init__(self, fn: Callable[..., Any], **settings: Any) -> None:
        self.source = fn
        self.settings = {"dynamic": False, **settings}
        self._compiled: Callable[..., Any] | None = None

    def __call__(self, *args: Any, **options: Any) -> Any:
        if self._compiled is None:
            import torch

            self._compiled = torch.compile(self.source, **self.settings)
        return self._compiled(*args, **options)

    def reset(self) -> None:
        self._compiled = None


# The op ------------------------------------------------------------------------------------------------


class Op:
    """A mathematical function: its reference, inputs, options, cost, and the ways of computing it."""

    def __init__(
        self,
        reference: Callable[..., Any],
        *,
        name: str | None = None,
        args: Mapping[str, Arg] | None = None,
        options: Mapping[str, Sequence[Any]] | None = None,
        dims: Mapping[str, str | int] | None = None,
        where: Callable[[Case], bool] | None = None,
        reduces: str = "",
        cost: Callable[..., Cost] | None = None,
        grad_cost: Callable[..., Cost] | None = None,
        cases: CaseTable | None = None,
        dtypes: Sequence[str] = (),
        manual: bool = True,
    ) -> None:
        self.reference = reference
        self.name = validation.name_of(name, reference)
        for what, value in (("where", where), ("cost", cost), ("grad_cost", grad_cost)):
            validation.function(f"op {self.name}", what, value)
        if cases is not None and not isinstance(cases, CaseTable):
            raise UserError(f"op {self.name}: cases= is a {type(cases).__name__}: write cases=kl.cases(shape=…)")
        self.doc = inspect.getdoc(reference) or ""
        self.file = Path(inspect.getsourcefile(reference) or "<unknown>")
        self.where = where
        self.cost = cost
        self.grad_cost = grad_cost
        self.default_cases = cases
        declared = cases.dtypes if cases is not None else ()
        self.dtypes = validation.dtypes(self.name, dtypes or declared or ("float32",))
        self._read_signature(args, options)
        self._order_dims({} if dims is None else dims, reduces)
        validation.indices(self.name, self.args, self.dims, self.options)
        self.impls: dict[str, Impl] = {}
        if manual:
            self._add("manual", reference)
        self.compile(reference)

    def _read_signature(self, args: Mapping[str, Arg] | None, options: Mapping[str, Sequence[Any]] | None) -> None:
        parameters = inspect.signature(self.reference).parameters.values()
        tensors = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        keywords = validation.keywords_of(self.reference)
        if not tensors:
            raise UserError(f"op {self.name} takes no tensor: its positional parameters are its inputs")
        everything = dict.fromkeys(tensors, Arg((ELLIPSIS,)))
        self.args = validation.described(self.name, everything if args is None else args)
        if list(self.args) != tensors:
            raise UserError(
                f"op {self.name}: args= describes {', '.join(self.args)}, the function takes {', '.join(tensors)}"
            )
        self.options = validation.listed(self.name, {} if options is None else options, keywords)
        # An optional tensor is given or not: one more option, absent first.
        self.given = {n: [False, True] for n, a in self.args.items() if a.optional}
        combinations = math.prod(len(values) for values in self.all_options().values())
        if combinations > _MOST_COMBINATIONS:
            raise UserError(
                f"op {self.name}: its options {', '.join(self.all_options())} have {combinations} combinations, and a "
                f"check tries every one: at most {_MOST_COMBINATIONS}"
            )

    def _order_dims(self, defaults: Mapping[str, str | int], reduces: str) -> None:
        seen = dict.fromkeys(d for arg in self.args.values() for d in arg.dims)
        self.reduces = validation.reduced(self.name, reduces, seen)
        self.dim_defaults = validation.sized(self.name, defaults, seen)
        self.free_dims = tuple(d for d in seen if d not in defaults)
        self.dims = (*self.free_dims, *(d for d in seen if d in defaults))

    # Ways ----------------------------------------------------------------------------------------------

    def impl(
        self,
        name: str,
        *,
        kind: str | None = None,
        supports: Supports | None = None,
        mutates: Sequence[str] = (),
        grad_in_forward: bool = False,
        study: bool = False,
        repeatable: bool = True,
    ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Register a way: `@op.impl("triton", supports=lambda case: case.N <= 65536 or "too wide")`."""
        if not isinstance(name, str):
            raise UserError(f'an implementation of {self.name} has no name: write @{self.name}.impl("name")')
        if name in self.impls:
            raise UserError(f"op {self.name} already has an implementation named {name}: give this one another name")
        whose = f"implementation {name} of {self.name}"
        validation.function(whose, "supports", supports)
        for arg in validation.names(whose, "mutates", mutates, next(iter(self.args))):
            if arg not in self.args:
                raise UserError(f"{whose} mutates {arg}: {nearest(arg, self.args)}")

        def register(fn: Callable[..., Any]) -> Callable[..., Any]:
            self._add(
                name,
                fn,
                kind=kind,
                supports=supports,
                mutates=frozenset(mutates),
                grad_in_forward=grad_in_forward,
                study=study,
                repeatable=repeatable,
            )
            return fn

        return register

    def _add(self, name: str, fn: Callable[..., Any], *, kind: str | None = None, **more: Any) -> None:
        if not callable(fn):
            raise UserError(f"implementation {name} of {self.name} is a {type(fn).__name__}, not a function")
        self.impls[name] = Impl(self, name, fn, kind_of(name, kind), **more)

    def compile(self, fn: Callable[..., Any], **settings: Any) -> Callable[..., Any]:
        """Compile this function, with these `torch.compile` settings, in place of the reference."""
        self._add("compile", Compiled(fn, **settings))
        return fn

    def chosen(self, asked: Collection[str]) -> list[Impl]:
        """The ways a request names, by name or pattern; without one, all but the studies."""
        if not asked:
            return [impl for impl in self.impls.values() if not impl.study]
        names = {name for text in asked for name in matching(text, self.impls)}
        return [impl for impl in self.impls.values() if impl.name in names]

    def __getitem__(self, name: str) -> Impl:
        if name not in self.impls:
            raise UserError(f"op {self.name} has no implementation {name}: {nearest(name, self.impls)}")
        return self.impls[name]

    def __call__(self, *args: Any, **options: Any) -> Any:
        return self.reference(*args, **options)

    def __repr__(self) -> str:
        return f"<op {self.name}: {', '.join(self.impls)}>"

    # Cases ---------------------------------------------------------------------------------------------

    def all_options(self) -> dict[str, list[Any]]:
        """Options and whether each optional tensor is given, first value first."""
        return {**self.options, **self.given}

    def case(self, data: Mapping[str, Any]) -> Case:
        """A case from JSON, its options the very values that were declared: a tuple stays a tuple."""
        case = Case.from_json(data)
        options = {}
        for name, value in case.options.items():
            declared = self.all_options().get(name, [])
            same = (v for v in declared if jsonable(v) == value and isinstance(v, bool) is isinstance(value, bool))
            options[name] = next(same, value)
        return case.with_(options=options)

    def call_options(self, case: Case) -> dict[str, Any]:
        """The keyword arguments of a call at this case."""
        return {k: v for k, v in case.options.items() if k in self.options}

    def sizes(self, arg: Arg, case: Case) -> tuple[int, ...]:
        """The sizes of an argument at a case."""
        sizes: list[int] = []
        for dim in arg.dims:
            size = case.dims[dim]
            sizes.extend(size if isinstance(size, tuple) else (size,))
        return tuple(sizes)

    def expand(self, request: CaseRequest, device: str) -> list[Case]:
        """The cases a request means on a device type. Timing uses the first value of each option."""
        table = dict(self.default_cases.on(device)) if self.default_cases else {}
        if request.quick:  # the smallest honest run: the first of everything
            table = {k: v[:1] for k, v in table.items()}
        dtypes = [parse_dtype(t) for t in request.dtypes or table.get("dtype", self.dtypes[:1])]
        table.pop("dtype", None)
        expanded = []
        for dims in self._bindings(request, table):
            for dtype, options in itertools.product(dtypes, self._option_choices(request)):
                expanded.append(Case(dims, dtype, options, device=device))
        kept = [case for case in expanded if self._defined_at(case)]
        if expanded and not kept:
            raise UserError(f"op {self.name} is not defined for {expanded[0].size_label}: its where= says no")
        return kept

    def resized(self, case: Case, sizes: Mapping[str, Size]) -> Case:
        """The case with some dims of other sizes; a dim that equals the one it defaults to keeps following it."""
        dims = {**case.dims, **sizes}
        for dim in self.dim_defaults:
            source = self.dim_defaults[dim]
            if dim not in sizes and isinstance(source, str) and case.dims[dim] == case.dims[source]:
                dims[dim] = dims[source]
        return case.with_(dims=dims)

    def variants(self, case: Case) -> list[Case]:
        """The case with every combination of option values: what a check has to cover."""
        names = self.all_options()
        first = [case]
        for values in itertools.product(*names.values()):
            variant = case.with_(options=dict(zip(names, values, strict=True)))
            if variant.key != case.key and self._defined_at(variant):
                first.append(variant)
        return first

    def _defined_at(self, case: Case) -> bool:
        try:
            return self.where is None or bool(self.where(case))
        except Exception as error:
            what = "".join(traceback.format_exception_only(error)).strip()
            raise UserError(f"op {self.name}: where= failed at {case.label}: {what}") from error

    def _bindings(self, request: CaseRequest, table: Mapping[str, Sequence[Any]]) -> Iterator[dict[str, Size]]:
        for dim in request.dims:
            if dim not in self.dims or dim == ELLIPSIS:
                dims = [d for d in self.dims if d != ELLIPSIS]
                hint = nearest(dim, dims) if dims else "its shape is given with --shape"
                raise UserError(f"op {self.name} has no dim {dim}: {hint}")
        needed = len(self.free_dims)
        shapes = request.shapes or table.get("shape", ())
        named = {k: v for k, v in table.items() if k != "shape" and not request.shapes}
        for dim in named:
            if dim not in self.dims:
                raise UserError(f"op {self.name} has no dim {dim}, which its cases= name: {nearest(dim, self.dims)}")
        bases = [bind_shape(s, self.dims, needed) for s in shapes] or [{}]
        swept = {**named, **request.dims}
        seen = set()
        for base, sizes in itertools.product(bases, itertools.product(*swept.values())):
            bound = self._fill({**base, **dict(zip(swept, sizes, strict=True))})
            fingerprint = tuple(bound.items())
            if fingerprint not in seen:
                seen.add(fingerprint)
                yield bound

    def _fill(self, bound: Mapping[str, Size]) -> dict[str, Size]:
        """Add defaulted dims; every dim in declaration order."""
        full = dict(bound)
        for dim, default in self.dim_defaults.items():
            if dim not in full:
                full[dim] = default if isinstance(default, int) else full[default]
        missing = [d for d in self.dims if d not in full]
        if missing:
            flags = "--shape" if ELLIPSIS in missing else f"--shape or --{missing[0]}"
            raise UserError(f"op {self.name} has no size for {' '.join(missing)}: give {flags}")
        return {d: full[d] for d in self.dims}

    def _option_choices(self, request: CaseRequest) -> Iterator[dict[str, Any]]:
        declared = self.all_options()
        for name in request.options:
            if name not in declared:
                raise UserError(f"op {self.name} has no option {name}: {nearest(name, declared)}")
        lists = []
        for name, values in declared.items():
            asked = request.options.get(name)
            lists.append([parse_option(name, t, values) for t in asked] if asked else values[:1])
        for choice in itertools.product(*lists):
            yield dict(zip(declared, choice, strict=True))


# Finding the ops a file declares -----------------------------------------------------------------------

_collectors: list[dict[str, Op]] = []


@contextlib.contextmanager
def collecting() -> Iterator[dict[str, Op]]:
    """Gather the ops declared while a file runs; two of one name are refused."""
    found: dict[str, Op] = {}
    _collectors.append(found)
    try:
        yield found
    finally:
        _collectors.remove(found)


def declared(reference: Callable[..., Any], declaration: Mapping[str, Any]) -> Op:
    """An op that no file is asked for."""
    called = str(declaration.get("name") or getattr(reference, "__name__", "?"))
    validation.known(called, declaration, validation.keywords_of(Op.__init__))
    return Op(reference, **declaration)


def op(reference: Callable[..., Any] | None = None, /, **declaration: Any) -> Any:
    """Declare an op: `@kl.op` or `@kl.op(cases=…, options=…)` above its plain PyTorch reference."""

    def declare(fn: Callable[..., Any]) -> Op:
        made = declared(fn, declaration)
        if _collectors:
            if made.name in _collectors[-1]:
                raise UserError(f"two ops are named {made.name}: give one of them another name")
            _collectors[-1][made.name] = made
        return made

    return declare(reference) if reference is not None else declare


__all__ += ["cases"]
