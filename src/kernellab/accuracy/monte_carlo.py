"""Monte Carlo arithmetic: what rounding every intermediate result does to an op's reference.

The reference is evaluated in the case's own dtype, several times, and the result of every operator is perturbed by a
random part of a rounding. The errors of these evaluations are those that a chain of plain PyTorch operators may have
in this dtype. Fused operators are decomposed first, so that their intermediate results are rounded too, to the dtype
of their inputs. A sum is perturbed further, by what rounding its running sums does.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch._decomp import decomposition_table
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_map_only

from kernellab.accuracy.accumulation import running_sums
from kernellab.accuracy.errors import NO_ERROR, Errors, measure, row_rms
from kernellab.accuracy.outputs import Outputs
from kernellab.accuracy.repeats import repeats
from kernellab.base.functions import AnyFunction
from kernellab.base.operator_mode import AnyOverload, OperatorMode
from kernellab.declaration.inputs import Inputs, clone, generator_for

DRAWS = 6
# Operators whose results are not rounded: they move, choose or compare values, or only change the sign.
_EXACT = frozenset(
    (
        *("abs", "amax", "amin", "argmax", "argmin", "as_strided", "cat", "clamp", "clamp_max", "clamp_min"),
        *("clone", "constant_pad_nd", "copy", "copy_", "detach", "diagonal", "embedding", "empty"),
        *("empty_like", "empty_strided", "expand", "fill", "fill_", "flip", "full", "full_like", "gather"),
        *("hardtanh", "index", "index_put", "index_put_", "index_select", "lift_fresh", "masked_fill"),
        *("masked_fill_", "masked_scatter", "max", "maximum", "median", "min", "minimum", "neg", "new_empty"),
        *("new_empty_strided", "new_full", "new_ones", "new_zeros", "ones", "ones_like", "permute", "relu"),
        *("repeat", "reshape", "roll", "scatter", "select_backward", "select_scatter", "sign"),
        *("slice_backward", "slice_scatter", "sort", "split", "stack", "t", "take", "threshold_backward"),
        *("topk", "transpose", "tril", "triu", "unbind", "unfold", "view", "where", "zero_", "zeros"),
        *("zeros_like",),
    )
)
# Operators that add many terms. They accumulate in float32 at least, in an order of their own.
_SUMS = frozenset(
    (
        *("addbmm", "addmm", "addmv", "baddbmm", "bmm", "convolution", "convolution_backward", "cumsum", "dot"),
        *("embedding_dense_backward", "index_add", "linalg_vector_norm", "mean", "mm", "mv", "prod"),
        *("scatter_add", "sum", "vdot"),
    )
)
# Fused operators that torch decomposes among its simple ones; the others have a module of their own.
_FUSED = frozenset(
    (
        *("addcdiv", "addcmul", "frobenius_norm", "lerp", "linalg_vector_norm", "log_softmax", "logaddexp"),
        *("logsumexp", "native_group_norm", "native_layer_norm", "norm", "rsub", "softmax", "std", "std_mean"),
        *("var", "var_mean"),
    )
)
_FUSED_MODULES = ("torch._decomp.decompositions", "torch._refs.nn.functional")


Evaluate = Callable[[Inputs], Outputs]  # the reference in the case's dtype


def most_roundings(dtype: torch.dtype) -> float:
    """The largest error of the reference that counts: half of the dtype's digits.

    A reference that is unstable, such as E[x²] − E[x]², would otherwise excuse errors of any size.
    """
    return float(torch.finfo(dtype).eps ** -0.5)


class RoundedReferences:
    """The errors of the reference with every operator's result rounded at random, computed when first needed."""

    def __init__(self, evaluate: Evaluate, inputs: Inputs, oracle: Outputs, *, rowwise: bool, seed: int) -> None:
        self._evaluate, self._inputs, self._oracle = evaluate, inputs, oracle
        self._rowwise, self._seed = rowwise, seed
        self._evaluations: list[Outputs] | None = None

    def errors(
        self, number: int, dtype: torch.dtype, least_scale: float, least_scales: torch.Tensor | None = None
    ) -> Errors:
        """The largest errors of result `number` in any evaluation, at most `most_roundings`."""
        most = most_roundings(dtype)
        largest = q999 = 0.0
        for outputs in self._all():
            errors = measure(
                outputs[number],
                self._oracle[number],
                rowwise=self._rowwise,
                least_scale=least_scale,
                least_scales=least_scales,
            )
            largest, q999 = max(largest, errors.max), max(q999, errors.q999)
        return replace(NO_ERROR, max=min(largest, most), q999=min(q999, most))

    def cancelled_rows(self, number: int, dtype: torch.dtype) -> torch.Tensor:
        """The elements in whose row, or tensor, some evaluation is off by more than `most_roundings`."""
        oracle = self._oracle[number]
        far = torch.zeros_like(oracle, dtype=torch.bool)
        most = most_roundings(dtype) * torch.finfo(dtype).eps * row_rms(oracle, rowwise=self._rowwise)
        for outputs in self._all():
            far |= (outputs[number].double() - oracle).abs() > most
        return far.any(-1, keepdim=True).expand_as(far) if self._rowwise and far.dim() else far.any().expand_as(far)

    def size_of_terms(self, number: int, places: torch.Tensor, dtype: torch.dtype) -> float:
        """The size of the terms of a sum whose exact value is 0 in all these places. What the evaluations have there is
        taken for one rounding of the terms."""
        off = [(outputs[number].double() - self._oracle[number]).abs()[places] for outputs in self._all()]
        finite = [t[t.isfinite()] for t in off]
        return max((float(t.max()) for t in finite if t.numel()), default=0.0) / torch.finfo(dtype).eps

    def _all(self) -> list[Outputs]:
        """Empty where they would take too much memory, or where the reference fails when it is perturbed."""
        if self._evaluations is None:
            try:
                self._evaluations = self._evaluate_all()
            except Exception:
                self._evaluations = []
        return self._evaluations

    def _evaluate_all(self) -> list[Outputs]:
        """With a softmax both as the operator, whose gradient has a formula of its own, and as a chain of operators."""
        evaluations = [self._compute(draw) for draw in self._draws()]
        with PlainSoftmax() as plain:
            for draw in self._draws():
                chain = self._compute(DRAWS + draw)
                if not plain.replaced:
                    break
                evaluations.append(chain)
        return evaluations

    def _draws(self) -> Iterator[int]:
        return repeats(DRAWS, self._inputs, self._oracle)

    def _compute(self, draw: int) -> Outputs:
        device = next(t.device for t in self._inputs.values() if t is not None)
        with RandomRounding(generator_for(device, self._seed, "Monte Carlo arithmetic", str(draw))):
            return self._evaluate(clone(self._inputs))


@dataclass
class _Fused:
    """The rounding inside a fused operator: that of its inputs' dtype, though it computes in a wider one."""

    depth: int = 0
    eps: float = 0.0


class RandomRounding(OperatorMode):
    """While active, the result of every operator is perturbed by up to half a unit in the last place.

    A sum is off by more: by the error of adding its terms one after another, with a random sign.
    """

    def __init__(self, generator: torch.Generator) -> None:
        super().__init__()
        self._generator, self._fused = generator, _Fused()

    def __torch_dispatch__(
        self,
        func: AnyOverload,
        types: Sequence[type],
        args: tuple[object, ...] = (),
        kwargs: Mapping[str, object] | None = None,
    ) -> object:
        options = dict(kwargs or {})
        name = func.overloadpacket.__name__
        if func.is_view or name in _EXACT:
            return func(*args, **options)
        if _is_fused(func, name):
            with contextlib.suppress(Exception), self._inside(args):
                decomposed = decomposition_table[func](*args, **options)
                if decomposed is not NotImplemented:
                    return decomposed
        if name in _SUMS:
            args = tree_map_only(torch.Tensor, self._round_term, args)
        result = func(*args, **options)
        if name in _SUMS and isinstance(result, torch.Tensor) and not func._schema.is_mutable:
            result = self._accumulate(result, running_sums(name, args, options))
        if func._schema.is_mutable:
            written = args[0] if args and isinstance(args[0], torch.Tensor) else options.get("out")
            if isinstance(written, torch.Tensor) and written.is_floating_point():
                written.copy_(self._round(written))
            return result
        return tree_map_only(torch.Tensor, self._round, result)

    @contextlib.contextmanager
    def _inside(self, args: tuple[object, ...]) -> Iterator[None]:
        """The decomposition of a fused operator: the mode is off while it handles one, and is entered again here."""
        before = self._fused
        floats = [t for t in args if isinstance(t, torch.Tensor) and t.is_floating_point()]
        eps = max((torch.finfo(t.dtype).eps for t in floats), default=0.0)
        self._fused = _Fused(before.depth + 1, max(before.eps, eps))
        try:
            with self:
                yield
        finally:
            self._fused = before

    def _accumulate(self, t: torch.Tensor, sums: torch.Tensor | None) -> torch.Tensor:
        """The sum with the error of its running sums, which are kept in float32 at least."""
        if sums is None or not t.is_floating_point():
            return t
        eps = min(torch.finfo(t.dtype).eps, torch.finfo(torch.float32).eps)
        sign = torch.rand(t.shape, generator=self._generator, device=t.device, dtype=torch.float32) < 0.5
        return (t.double() + torch.where(sign, -eps, eps) * sums).to(t.dtype)

    def _round(self, t: torch.Tensor) -> torch.Tensor:
        return self._perturb(t, max(torch.finfo(t.dtype).eps, self._fused.eps)) if t.is_floating_point() else t

    def _round_term(self, t: torch.Tensor) -> torch.Tensor:
        """A term of a sum. Terms of narrower dtypes are exact in float32, in which they are added."""
        return self._round(t) if t.dtype in (torch.float32, torch.float64) else t

    def _perturb(self, t: torch.Tensor, eps: float) -> torch.Tensor:
        part = torch.rand(t.shape, generator=self._generator, device=t.device, dtype=torch.float32) - 0.5
        wide = t if t.dtype == torch.float64 else t.float()
        return (wide * (1 + eps * part.to(wide.dtype))).to(t.dtype)


class PlainSoftmax(TorchFunctionMode):
    """While active, softmax and log_softmax are chains of operators, which are differentiated one by one."""

    def __init__(self) -> None:
        super().__init__()
        self.replaced = False

    def __torch_function__(
        self,
        func: AnyFunction,
        types: Sequence[type],
        args: tuple[object, ...] = (),
        kwargs: Mapping[str, object] | None = None,
    ) -> object:
        options = dict(kwargs or {})
        name = getattr(func, "__name__", "")
        x, dim = args[0] if args else None, args[1] if len(args) > 1 else options.get("dim")
        converts = len(args) > 2 or options.get("dtype") is not None  # to another dtype
        if name not in ("softmax", "log_softmax") or converts:
            return func(*args, **options)
        if not isinstance(x, torch.Tensor) or not isinstance(dim, int):
            return func(*args, **options)
        self.replaced = True
        shifted = x - x.amax(dim, keepdim=True)
        exponentials = shifted.exp()
        total = exponentials.sum(dim, keepdim=True)
        return exponentials / total if name == "softmax" else shifted - total.log()


def _is_fused(func: AnyOverload, name: str) -> bool:
    decomposition = decomposition_table.get(func)
    return decomposition is not None and (name in _FUSED or decomposition.__module__ in _FUSED_MODULES)
