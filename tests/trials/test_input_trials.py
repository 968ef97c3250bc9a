"""Which mistakes in the forward pass the kinds of trials find; each beside a correct implementation."""

import torch

import kernellab as kl
from support.trying import as_if_stride_one, failures, gather_rows


def op_with_optional_bias():
    @kl.op(
        args=dict(x=kl.tensor("M N"), b=kl.optional(kl.tensor("N"))),
        cases=kl.cases(M=[8], N=[16], dtype=["float32"]),
    )
    def bias(x, b=None):
        return x * 1 if b is None else x + b

    return bias


def test_an_optional_input_is_varied_like_any_other():
    bias = op_with_optional_bias()
    bias.impl("right")(lambda x, b=None: torch.clone(x) if b is None else b + x)
    bias.impl("stride")(lambda x, b=None: bias.reference(x, as_if_stride_one(b)))
    bias.impl("nan")(lambda x, b=None: bias.reference(x, None if b is None else b.nan_to_num(0.0)))

    @bias.impl("block")
    def _(x, b=None):
        return bias.reference(x, None if b is None else b * (torch.arange(b.numel()) < 1024))

    failed = failures(bias)
    assert set(failed) == {"stride", "nan", "block"}
    assert {t.kind for t in failed["stride"]} >= {"layouts"}
    assert {t.kind for t in failed["nan"]} == {"values"}
    assert {t.kind for t in failed["block"]} == {"sizes", "gradients", "combinations", "long"}


def test_sizes_are_also_tried_without_the_optional_input():
    bias = op_with_optional_bias()

    @bias.impl("narrow")
    def _(x, b=None):
        y = bias.reference(x, b)
        return y if b is not None or y.shape[1] <= 1024 else y * 2

    assert {t.kind for t in failures(bias, "sizes", "layouts", "values")["narrow"]} == {"sizes"}


def test_optional_inputs_that_exclude_each_other_are_tried_separately():
    @kl.op(
        args=dict(x=kl.tensor("N"), a=kl.optional(kl.tensor("N")), b=kl.optional(kl.tensor("N"))),
        where=lambda c: not (c.a and c.b),
        cases=kl.cases(N=[16], dtype=["float32"]),
    )
    def either(x, a=None, b=None):
        return x * 1 if a is None and b is None else x + (a if b is None else b)

    either.impl("a")(lambda x, a=None, b=None: either.reference(x, as_if_stride_one(a), b))
    either.impl("b")(lambda x, a=None, b=None: either.reference(x, a, as_if_stride_one(b)))
    assert set(failures(either, "layouts")) == {"a", "b"}


def test_index_inputs_are_tried_in_other_layouts():
    rows = gather_rows()
    rows.impl("right")(lambda w, i: torch.index_select(w, 0, i))
    rows.impl("stride")(lambda w, i: w[as_if_stride_one(i)])
    failed = failures(rows)
    assert {t.kind for t in failed.pop("stride")} == {"layouts"}
    assert not failed


def test_an_optional_mask_is_tried_with_nothing_selected():
    @kl.op(
        args=dict(x=kl.tensor("M"), keep=kl.optional(kl.index("M", below=2))),
        where=lambda c: c.M > 0,
        cases=kl.cases(M=[32], dtype=["float32"]),
    )
    def average(x, keep=None):
        return x.mean() if keep is None else torch.where(keep == 1, x, 0).sum() / keep.sum()

    @average.impl("clamped")
    def _(x, keep=None):
        return x.mean() if keep is None else torch.where(keep == 1, x, 0).sum() / keep.sum().clamp_min(1)

    assert any("keep" in t.values for t in failures(average, "indices")["clamped"])


def test_channels_last_is_tried_wherever_an_input_has_four_dims():
    @kl.op(args=dict(x=kl.tensor("B C H W")), cases=kl.cases(B=[2], C=[4], H=[5], W=[6], dtype=["float32"]))
    def double(x):
        return 2 * x

    @double.impl("nchw")
    def _(x):
        last = x.is_contiguous(memory_format=torch.channels_last) and not x.is_contiguous()
        return 2 * (torch.as_strided(x, x.shape, torch.empty(x.shape).stride()) if last else x)

    assert {t.layouts["x"] for t in failures(double, "layouts")["nchw"]} == {"channels last"}


def test_long_rows_of_an_op_without_named_dims_are_tried_with_the_deciding_value_at_the_end():
    @kl.op(cases=kl.cases(shape=[(8, 64)], dtype=["float32"]), where=lambda c: c.shape and c.shape[-1] > 0)
    def largest(x):
        return x.amax(-1)

    largest.impl("right")(lambda x: x.max(-1).values)
    for limit in (4096, 65536, 131072):
        largest.impl(f"first-{limit}")(lambda x, limit=limit: x[..., :limit].amax(-1))
    largest.impl("rows")(lambda x: x.amax(-1) * (torch.arange(x.shape[0]) < 2048) if x.dim() == 2 else x.amax(-1))
    largest.impl("clamped")(lambda x: x.amax(-1).clamp_min(0))

    @largest.impl("padded")
    def _(x):
        odd = x.shape[-1] & (x.shape[-1] - 1)
        return (torch.nn.functional.pad(x, (0, 1)) if odd else x).amax(-1)

    failed = failures(largest, "sizes", "values")
    at_end = {t.case.shape for t in failed["first-131072"] if t.values}
    assert any(shape[-1] == 262144 for shape in at_end), "by chance alone, the longest row shows it for some seeds only"
    assert set(failed) == {"first-4096", "first-65536", "first-131072", "rows", "clamped", "padded"}
    assert "values" in {t.kind for t in failed["padded"]}, "special values are tried at the odd base too"


def test_a_late_block_may_hold_values_far_above_those_of_the_first():
    @kl.op(args=dict(x=kl.tensor("M N")), reduces="N", cases=kl.cases(M=[4], N=[64], dtype=["float32"]))
    def log_sum_exp(x):
        return x.logsumexp(-1)

    def by_first_block(x):  # its maximum serves for the later ones
        top = x[:, :512].amax(-1, keepdim=True).clamp(-3e38, 3e38) if x.shape[1] > 512 else 0
        return ((x - top).exp().sum(-1).log() + top[:, 0]) if x.shape[1] > 512 else x.logsumexp(-1)

    log_sum_exp.impl("right")(lambda x: torch.logsumexp(x, -1))
    log_sum_exp.impl("first-block")(by_first_block)
    failed = failures(log_sum_exp, "sizes")
    assert set(failed) == {"first-block"}
    assert {t.values.get("x") for t in failed["first-block"]} == {"far larger at the end"}


def test_other_option_values_are_tried_in_other_dtypes():
    @kl.op(options=dict(factor=[2.0, 3.0]), cases=kl.cases(shape=[(8, 64)], dtype=["float32", "bfloat16"]))
    def scale(x, *, factor=2.0):
        return x * factor

    scale.impl("right")(lambda x, *, factor=2.0: factor * x)
    scale.impl("ignored")(lambda x, *, factor=2.0: x * (2.0 if x.dtype == torch.bfloat16 else factor))
    failed = failures(scale, "options")
    assert set(failed) == {"ignored"}
    assert {(t.case.dtype, t.case.options["factor"]) for t in failed["ignored"]} == {("bfloat16", 3.0)}


def test_rows_are_tried_beyond_what_16_bits_count():
    @kl.op(args=dict(x=kl.tensor("M N")), reduces="N", cases=kl.cases(M=[8], N=[32], dtype=["float32"]))
    def total(x):
        return x.sum(-1)

    total.impl("right")(lambda x: torch.sum(x, -1))
    total.impl("grid")(lambda x: x.sum(-1) * (torch.arange(x.shape[0]) < 65535))
    total.impl("blocks", supports=lambda c: c.M % 128 == 0 or "M in 128s")(
        lambda x: x.sum(-1) * (torch.arange(x.shape[0]) < 32768)
    )
    failed = failures(total, "sizes")
    assert set(failed) == {"grid", "blocks"}
