"""Functions for models: those of torch.nn.functional, served by the fastest implementation, and fused ones that PyTorch
lacks.

A function has the signature and the semantics of its namesake in torch.nn.functional. Where no kernel of ours covers a
call, PyTorch's own function is called: with wrong input too, so that errors are PyTorch's. A fused function then
computes the same by PyTorch's operators. docs/models.md says what is covered.

Most functions first ask kernellab.launcher to repeat an earlier call, which takes less host time. `dropout_add` does
not: no call of it is like another. Nor do `scaled_dot_product_attention` and the functions with a matmul, which take
longer than the host needs.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F  # noqa: N812  its usual name
from torch import Tensor
from torch.compiler import is_compiling

from kernellab import ops
from kernellab.launcher.repetition import Result
from kernellab.library import operators, random_streams
from kernellab.library.choice import is_plain
from kernellab.library.operators import Outputs

__all__ = [
    "add_rms_norm",
    "cross_entropy",
    "dropout_add",
    "geglu",
    "gelu",
    "layer_norm",
    "linear_cross_entropy",
    "linear_gelu",
    "log_softmax",
    "rms_norm",
    "rope",
    "scaled_dot_product_attention",
    "silu",
    "softmax",
    "swiglu",
]

_FORMS_OF_GELU = ("none", "tanh")


@operators.GELU.repeated.serves
def gelu(input: Tensor, approximate: str = "none") -> Tensor:
    """As torch.nn.functional.gelu."""
    if not is_compiling() and (known := operators.GELU.repeated.repeat(input, approximate)) is not None:
        return known
    if approximate in _FORMS_OF_GELU and operators.GELU.serves(input, (approximate,)):
        return operators.GELU.call(input, approximate)
    return F.gelu(input, approximate=approximate)


@operators.SILU.repeated.serves
def silu(input: Tensor, inplace: bool = False) -> Tensor:
    """As torch.nn.functional.silu."""
    if not is_compiling() and (known := operators.SILU.repeated.repeat(input, inplace)) is not None:
        return known
    if not inplace and operators.SILU.serves(input):
        return operators.SILU.call(input)
    return F.silu(input, inplace)


@operators.SWIGLU.repeated.serves
def swiglu(gate: Tensor, up: Tensor) -> Tensor:
    """silu(gate)·up."""
    if not is_compiling() and (known := operators.SWIGLU.repeated.repeat(gate, up)) is not None:
        return known
    if operators.SWIGLU.serves(gate) and _alike(gate, up):
        return operators.SWIGLU.call(gate, up)
    return F.silu(gate) * up


@operators.GEGLU.repeated.serves
def geglu(gate: Tensor, up: Tensor, approximate: str = "none") -> Tensor:
    """gelu(gate, approximate)·up."""
    if not is_compiling() and (known := operators.GEGLU.repeated.repeat(gate, up, approximate)) is not None:
        return known
    if approximate in _FORMS_OF_GELU and operators.GEGLU.serves(gate, (approximate,)) and _alike(gate, up):
        return operators.GEGLU.call(gate, up, approximate)
    return F.gelu(gate, approximate=approximate) * up


@operators.SOFTMAX.repeated.serves
def softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: torch.dtype | None = None) -> Tensor:
    """As torch.nn.functional.softmax. Kernels of ours cover the last dim, without another dtype."""
    if not is_compiling() and (known := operators.SOFTMAX.repeated.repeat(input, dim, dtype)) is not None:
        return known
    y = _along_last_dim(operators.SOFTMAX, input, dim, dtype)
    return F.softmax(input, dim, _stacklevel + 1, dtype) if y is None else y


@operators.LOG_SOFTMAX.repeated.serves
def log_softmax(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: torch.dtype | None = None
) -> Tensor:
    """As torch.nn.functional.log_softmax. Kernels of ours cover the last dim, without another dtype."""
    if not is_compiling() and (known := operators.LOG_SOFTMAX.repeated.repeat(input, dim, dtype)) is not None:
        return known
    y = _along_last_dim(operators.LOG_SOFTMAX, input, dim, dtype)
    return F.log_softmax(input, dim, _stacklevel + 1, dtype) if y is None else y


@operators.LAYER_NORM.repeated.serves
def layer_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """As torch.nn.functional.layer_norm. Kernels of ours cover norms over one dim."""
    if not is_compiling():
        known = operators.LAYER_NORM.repeated.repeat(input, normalized_shape, weight, bias, eps)
        if known is not None:
            return known
    if _serves_norm(operators.LAYER_NORM, input, normalized_shape, weight, bias):
        return operators.LAYER_NORM.call(input, weight, bias, eps)[0]
    return F.layer_norm(input, normalized_shape, weight, bias, eps)


@operators.RMS_NORM.repeated.serves
def rms_norm(
    input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None = None, eps: float | None = None
) -> Tensor:
    """As torch.nn.functional.rms_norm. Kernels of ours cover norms over one dim."""
    if not is_compiling():
        known = operators.RMS_NORM.repeated.repeat(input, normalized_shape, weight, eps)
        if known is not None:
            return known
    if _serves_norm(operators.RMS_NORM, input, normalized_shape, weight):
        return operators.RMS_NORM.call(input, weight, _eps(input, eps))[0]
    return F.rms_norm(input, normalized_shape, weight, eps)


@operators.ADD_RMS_NORM.repeated.serves
def add_rms_norm(
    input: Tensor,
    residual: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    eps: float | None = None,
) -> tuple[Tensor, Tensor]:
    """rms_norm(input + residual), and the sum: a residual connection with the norm behind it."""
    if not is_compiling():
        known = operators.ADD_RMS_NORM.repeated.repeat(input, residual, normalized_shape, weight, eps)
        if known is not None:
            return known
    if (
        _serves_norm(operators.ADD_RMS_NORM, input, normalized_shape, weight)
        and _alike(input, residual)
        # Autocast may normalize in another dtype than it adds in.
        and not torch.is_autocast_enabled(input.device.type)
    ):
        y, total, _ = operators.ADD_RMS_NORM.call(input, residual, weight, _eps(input, eps))
        return y, total
    total = input + residual
    return rms_norm(total, normalized_shape, weight, eps), total


@operators.CROSS_ENTROPY.repeated.serves
def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """As torch.nn.functional.cross_entropy. Kernels of ours cover logits [rows, classes] with a class for each row.

    On a GPU, and in compiled code, a class that does not exist gives a loss and a gradient of NaN.
    """
    if not is_compiling():
        known = operators.CROSS_ENTROPY.repeated.repeat(
            input, target, weight, size_average, ignore_index, reduce, reduction, label_smoothing
        )
        if known is not None:
            return known
    if (
        weight is None
        and size_average is None
        and reduce is None
        and reduction in ("mean", "sum", "none")
        and 0.0 <= label_smoothing <= 1.0
        and operators.CROSS_ENTROPY.serves(input, (reduction, float(label_smoothing), ignore_index))
        and input.dim() == 2
        and input.shape[1] > 0
        and _is_class_of_each_row(input, target)
    ):
        if input.device.type == "cpu" and not torch.compiler.is_compiling():
            _require_classes(target, input.shape[1], ignore_index)
        return operators.CROSS_ENTROPY.call(input, target, reduction, float(label_smoothing), ignore_index)[0]
    return F.cross_entropy(
        input, target, weight, size_average, ignore_index, reduce, reduction, label_smoothing=label_smoothing
    )


def linear_gelu(input: Tensor, weight: Tensor, bias: Tensor | None = None, approximate: str = "none") -> Tensor:
    """gelu(linear(input, weight, bias), approximate)."""
    if (
        approximate in _FORMS_OF_GELU
        and operators.LINEAR_GELU.serves(input, (approximate,))
        and _multiplies(input, weight)
        and (bias is None or (_is_beside(input, bias) and bias.shape == weight.shape[:1]))
    ):
        wanted = _needs_gradient(input, weight, bias)
        return operators.LINEAR_GELU.call(input, weight, bias, approximate, wanted)[0]
    return F.gelu(F.linear(input, weight, bias), approximate=approximate)


def linear_cross_entropy(
    input: Tensor,
    linear_weight: Tensor,
    target: Tensor,
    *,
    linear_bias: Tensor | None = None,
    weight: Tensor | None = None,
    reduction: str = "mean",
    ignore_index: int | None = None,
    label_smoothing: float = 0.0,
    options: object = None,
) -> Tensor:
    """As torch.nn.functional.linear_cross_entropy, which PyTorch has from 2.13 on: the cross-entropy of
    linear(input, linear_weight), whose logits are not in memory together.

    Kernels of ours cover inputs [rows, columns] with a class for each row. On a GPU, and in compiled code, a class that
    does not exist gives a loss and a gradient of NaN.
    """
    ignored = -100 if ignore_index is None else ignore_index
    if (
        linear_bias is None
        and weight is None
        and options is None
        and reduction in ("mean", "sum", "none")
        and 0.0 <= label_smoothing <= 1.0
        and operators.LINEAR_CROSS_ENTROPY.serves(input, (reduction, float(label_smoothing), ignored))
        and input.dim() == 2
        and _multiplies(input, linear_weight)
        and linear_weight.shape[0] > 0
        and _is_class_of_each_row(input, target)
    ):
        if input.device.type == "cpu" and not is_compiling():
            _require_classes(target, linear_weight.shape[0], ignored)
        wanted = _needs_gradient(input, linear_weight)
        return operators.LINEAR_CROSS_ENTROPY.call(
            input, linear_weight, target, reduction, float(label_smoothing), ignored, wanted
        )[0]
    if (pytorchs := vars(F).get("linear_cross_entropy")) is not None:
        loss: Tensor = pytorchs(
            input,
            linear_weight,
            target,
            linear_bias=linear_bias,
            weight=weight,
            reduction=reduction,
            ignore_index=ignore_index,
            label_smoothing=label_smoothing,
            options=options,
        )
        return loss
    if options is not None:
        raise TypeError("linear_cross_entropy has no options before torch 2.13")
    logits = F.linear(input, linear_weight, linear_bias)
    return F.cross_entropy(
        logits, target, weight, ignore_index=ignored, reduction=reduction, label_smoothing=label_smoothing
    )


@operators.ROPE.repeated.serves
def rope(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, *, interleaved: bool = False) -> tuple[Tensor, Tensor]:
    """Rotary position embedding of queries and keys, [batch, heads, positions, columns], in one launch.

    The tables are [positions, columns / 2]: an angle for each pair of columns, in the dtype of the queries. Column i of
    the first half is paired with column i of the second, or with `interleaved` each even column with the next.
    PyTorch's operators broadcast and promote tables of another shape or dtype.
    """
    if not is_compiling() and (known := operators.ROPE.repeated.repeat(q, k, cos, sin, interleaved)) is not None:
        return known
    if operators.ROPE.serves(q, (interleaved,)) and _rotates(q, k, cos, sin):
        return operators.ROPE.call(q, k, cos, sin, interleaved)
    turned: tuple[Tensor, Tensor] = ops.rope(q, k, cos, sin, interleaved=interleaved)
    return turned


def dropout_add(input: Tensor, residual: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
    """torch.nn.functional.dropout(input, p, training) + residual.

    The mask follows from the state of PyTorch's generator of the device, as that of PyTorch's dropout does, but it is
    another mask. It is not stored: the backward pass draws it again. PyTorch serves in compiled code and while a CUDA
    graph is captured.
    """
    if (
        training
        and not is_compiling()
        and 0.0 < p <= 1.0
        and operators.DROPOUT_ADD.serves(input, (float(p),))
        and _alike(input, residual)
        and random_streams.available(input.device)
    ):
        stream = random_streams.draw(input.device)
        return operators.DROPOUT_ADD.call(input, residual, float(p), *stream.as_int64())
    return F.dropout(input, p, training) + residual


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """As torch.nn.functional.scaled_dot_product_attention: a causal mask is aligned at the top left, and a query that
    sees no key gets 0. Kernels of ours cover four dims, values as wide as keys, and calls without dropout.

    A bool mask is first made one of numbers, as PyTorch does it; it is not expanded in memory.
    """
    options = ("top_left" if is_causal else None, None if scale is None else float(scale), None, 0.0, 0, 0)
    if (
        operators.ATTENTION.serves(query, options)
        and dropout_p == 0.0
        and _attends(query, key, value, grouped=enable_gqa)
        and (attn_mask is None or (not is_causal and _is_mask(attn_mask, query, key)))
    ):
        bias = None if attn_mask is None else _bias(attn_mask, query, key)
        return operators.ATTENTION.call(query, key, value, bias, *options)[0]
    return F.scaled_dot_product_attention(
        query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
    )


def _along_last_dim(
    operator: operators.Operator[Tensor, Tensor], x: Tensor, dim: int | None, dtype: torch.dtype | None
) -> Tensor | None:
    """An op of the rows along a dim, if that is the last one but for dims of size 1; else None."""
    if dim is not None and operator.serves(x) and (dtype is None or _computes_in(dtype, x)):
        last = x.dim() - 1
        if dim in (-1, last) and last >= 0:
            return operator.call(x)
        if -last - 1 <= dim < last and all(size == 1 for size in x.shape[dim + 1 :]):
            return operator.call(x.flatten(dim)).view(x.shape)
    return None


def _alike(x: Tensor, other: Tensor) -> bool:
    return _is_beside(x, other) and other.shape == x.shape


def _is_beside(x: Tensor, other: Tensor) -> bool:
    return is_plain(other) and other.dtype is x.dtype and other.device == x.device


def _is_class_of_each_row(x: Tensor, target: Tensor) -> bool:
    return (
        is_plain(target)
        and target.dtype is torch.int64
        and target.dim() == 1
        and target.shape[0] == x.shape[0]
        and target.device == x.device
    )


def _multiplies(x: Tensor, weight: Tensor) -> bool:
    """Whether a linear layer with this weight takes x, and computes in the dtype of x."""
    return (
        _is_beside(x, weight)
        and weight.dim() == 2
        and x.dim() > 0
        and x.shape[-1] == weight.shape[1]
        and not torch.is_autocast_enabled(x.device.type)
    )


def _needs_gradient(*inputs: Tensor | None) -> list[bool]:
    enabled = torch.is_grad_enabled()
    return [enabled and x is not None and x.requires_grad for x in inputs]


def _serves_norm(
    operator: operators.Operator[Outputs, Result],
    x: Tensor,
    normalized_shape: Sequence[int],
    *parameters: Tensor | None,
) -> bool:
    """Whether a norm serves for x: it normalizes the last dim alone, and the parameters are as kernels take them."""
    return (
        operator.serves(x)
        and isinstance(normalized_shape, (tuple, list))
        and len(normalized_shape) == 1
        and x.dim() > 0
        and x.shape[-1] == normalized_shape[0]
        and all(parameter is None or _is_parameter(operator, x, parameter) for parameter in parameters)
    )


def _is_parameter(operator: operators.Operator[Outputs, Result], x: Tensor, parameter: Tensor) -> bool:
    return (
        is_plain(parameter)
        and parameter.shape == x.shape[-1:]
        and parameter.device == x.device
        and (parameter.dtype is x.dtype or (operator.is_cast_on_gpus and _is_cast(x, parameter)))
    )


def _is_cast(*tensors: Tensor) -> bool:
    """Whether autocast gives the inputs of a norm one dtype."""
    return torch.is_autocast_enabled("cuda") and all(
        x.device.type == "cuda" and x.is_floating_point() and x.dtype is not torch.float64 for x in tensors
    )


def _computes_in(dtype: torch.dtype, x: Tensor) -> bool:
    """Whether softmax computes in a dtype, though autocast may be enabled."""
    return dtype is x.dtype and not torch.is_autocast_enabled(x.device.type)


def _eps(x: Tensor, eps: float | None) -> float:
    """PyTorch's default is that of the arithmetic, which is float32 for 16-bit tensors."""
    return torch.finfo(torch.float64 if x.dtype is torch.float64 else torch.float32).eps if eps is None else eps


def _require_classes(target: Tensor, classes: int, ignore_index: int) -> None:
    """Raise the error that PyTorch raises on a CPU."""
    if target.numel():
        low, high = torch.aminmax(target)
        if low < 0 or high >= classes:  # the ignored index may be the reason
            outside = target[((target < 0) | (target >= classes)) & (target != ignore_index)]
            if outside.numel():
                raise IndexError(f"Target {int(outside[0])} is out of bounds.")


def _rotates(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> bool:
    """Whether a kernel takes these: gradients are those of queries and keys alone."""
    return (
        all(is_plain(x) and x.dtype is q.dtype and x.device == q.device for x in (k, cos, sin))
        and q.dim() == k.dim() == 4
        and k.shape[0] == q.shape[0]
        and k.shape[2:] == q.shape[2:]
        and q.shape[3] % 2 == 0
        and cos.shape == sin.shape == (q.shape[2], q.shape[3] // 2)
        and not (cos.requires_grad or sin.requires_grad)
    )


def _attends(q: Tensor, k: Tensor, v: Tensor, *, grouped: bool) -> bool:
    """Whether a kernel takes these. Under autocast they must have the dtype that it casts to."""
    return (
        all(is_plain(x) and x.dtype is q.dtype and x.device == q.device for x in (k, v))
        and q.dim() == k.dim() == v.dim() == 4
        and k.shape == v.shape
        and (k.shape[0], k.shape[3]) == (q.shape[0], q.shape[3])
        and q.shape[3] > 0
        and (k.shape[1] == q.shape[1] or (grouped and k.shape[1] > 0 and q.shape[1] % k.shape[1] == 0))
        and (not torch.is_autocast_enabled(q.device.type) or torch.get_autocast_dtype(q.device.type) is q.dtype)
    )


def _is_mask(mask: Tensor, q: Tensor, k: Tensor) -> bool:
    """Whether a mask is broadcast to all pairs of a query and a key, and of a dtype that a kernel takes."""
    sizes = (*q.shape[:3], k.shape[2])[-mask.dim() :]
    return (
        is_plain(mask)
        and mask.device == q.device
        and (mask.dtype is torch.bool or mask.dtype is q.dtype)
        and 2 <= mask.dim() <= 4
        and all(own in (1, size) for own, size in zip(mask.shape, sizes, strict=True))
    )


def _bias(mask: Tensor, q: Tensor, k: Tensor) -> Tensor:
    """What a mask adds to the scores of all pairs."""
    if mask.dtype is torch.bool:
        mask = torch.zeros_like(mask, dtype=q.dtype).masked_fill(~mask, -torch.inf)
    return mask.expand(*q.shape[:3], k.shape[2])
