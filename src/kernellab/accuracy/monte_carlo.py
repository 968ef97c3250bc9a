"""Monte Carlo arithmetic: what rounding every intermediate result does to an op's reference.

The reference is evaluated in the case's own dtype, several times, and the result of every operator is perturbed by a
random part of a rounding. The errors of these evaluations are those that a chain of plain PyTorch operators may have
in this dtype. Fused operators are decomposed first, so that their intermediate results are rounded too, to the dtype
of their inputs.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import torch
from torch._decomp import decomposition_table
from torch._ops import OpOverload
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only

from kernellab.accuracy.errors import NO_ERROR, Errors, measure
from kernellab.accuracy.outputs import Outputs
from kernellab.declaration.inputs import Inputs, clone, generator_for

# The parameters of an operator are its own, which only `...` can say.
AnyOverload: TypeAlias = OpOverload[..., object]  # type: ignore[explicit-any]

DRAWS = 6
MAX_ELEMENTS = 1 << 21  # of an input or a result
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

    def errors(self, number: int, dtype: torch.dtype, least_scale: float) -> Errors:
        """The largest errors of result `number` in any evaluation, at most `most_roundings`."""
        most = most_roundings(dtype)
        largest = q999 = 0.0
        for outputs in self._all():
            errors = measure(outputs[number], self._oracle[number], rowwise=self._rowwise, least_scale=least_scale)
            largest, q999 = max(largest, errors.max), max(q999, errors.q999)
        return replace(NO_ERROR, max=min(largest, most), q999=min(q999, most))

    def _all(self) -> list[Outputs]:
        """Empty where they would take too much memory, or where the reference fails when it is perturbed."""
        if self._evaluations is None:
            try:
                self._evaluations = [self._compute(draw) for draw in range(DRAWS)] if self._is_small() else []
            except Exception:
                self._evaluations = []
        return self._evaluations

    def _is_small(self) -> bool:
        return all(t is None or t.numel() <= MAX_ELEMENTS for t in (*self._inputs.values(), *self._oracle))

    def _compute(self, draw: int) -> Outputs:
        device = next(t.device for t in self._inputs.values() if t is not None)
        with RandomRounding(generator_for(device, self._seed, "Monte Carlo arithmetic", str(draw))):
            return self._evaluate(clone(self._inputs))


@dataclass
class _Fused:
    """The rounding inside a fused operator: that of its inputs' dtype, though it computes in a wider one."""

    depth: int = 0
    eps: float = 0.0


class RandomRounding(TorchDispatchMode):
    """While active, the result of every operator is perturbed by up to half a unit in the last place."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """False: True would import torch's compiler, which takes seconds."""
        return False

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

    def _round(self, t: torch.Tensor) -> torch.Tensor:
        return self._perturb(t, max(torch.finfo(t.dtype).eps, self._fused.eps)) if t.is_floating_point() else t

    def _round_term(self, t: torch.Tensor) -> torch.Tensor:
        """A term of a sum. Terms of narrower dtypes are exact in float32, in which they are added."""
        return self._round(t) if t.dtype in (torch.float32, torch.float64) else t

    def _perturb(self, t: torch.Tensor, eps: float) -> torch.Tensor:
        part = torch.rand(t.shape, generator=self._generator, device=t.device, dtype=torch.float32) - 0.5
        wide = t if t.dtype == torch.float64 else t.float()
        return (wide * (1 + eps * part.to(wide.dtype))).to(t.dtype)


def _is_fused(func: AnyOverload, name: str) -> bool:
    decomposition = decomposition_table.get(func)
    return decomposition is not None and (name in _FUSED or decomposition.__module__ in _FUSED_MODULES)
