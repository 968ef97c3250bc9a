"""Op and Impl: implementations, cases, options."""

import json

import pytest
import torch

import kernellab as kl
from kernellab.base.errors import UserError
from kernellab.declaration.case_request import CaseRequest
from kernellab.declaration.op import copy_of
from kernellab.declaration.targets import Target, load
from kernellab.trials.domain import is_defined
from support.klab import OPFILES


@pytest.fixture(scope="module")
def sketches():
    return load(Target("sketches", file=str(OPFILES / "sketches.py")))


def test_the_smallest_op_has_manual_and_compile_for_free():
    @kl.op
    def triple(x):
        return 3 * x

    assert list(triple.impls) == ["manual", "compile"]
    x = torch.randn(4)
    assert torch.equal(triple["manual"](x), 3 * x)
    assert torch.equal(triple(x), 3 * x)


def test_cases_are_crossed_and_replaced_per_device():
    @kl.op(
        args=dict(x=kl.tensor("M N")),
        cases=kl.cases(M=[8], N=[1, 2], dtype=["float32", "bfloat16"], cpu=dict(dtype=["float32"])),
    )
    def f(x):
        return x

    assert [c.size_label for c in f.expand(CaseRequest(), "cpu")] == ["M=8 N=1", "M=8 N=2"]
    assert len(f.expand(CaseRequest(), "cuda")) == 4
    assert [c.shape for c in f.expand(CaseRequest(dims={"N": [5, 6]}), "cpu")] == [(8, 5), (8, 6)]
    assert [c.shape for c in f.expand(CaseRequest(shapes=[(3, 4)]), "cpu")] == [(3, 4)]
    assert len(f.expand(CaseRequest(quick=True), "cuda")) == 1


def test_a_case_has_the_first_value_of_an_option_and_variants_have_all():
    gelu = kl.ops.gelu
    (case,) = gelu.expand(CaseRequest(shapes=[(4, 4)], dtypes=["float32"]), "cpu")
    assert case.approximate == "tanh"
    assert [v.approximate for v in gelu.option_variants(case)] == ["tanh", "none"]
    (other,) = gelu.expand(CaseRequest(shapes=[(4, 4)], options={"approximate": ["none"]}), "cpu")
    assert other.approximate == "none"


def test_dims_are_in_order_of_declaration(sketches):
    op = sketches["cross_entropy"]
    (case,) = op.expand(CaseRequest(), "cpu")
    assert op.dims == ("M", "V")
    assert len(op.option_variants(case)) == 6


def test_dims_follow_others_unless_they_are_given(sketches):
    op = sketches["attention"]
    (case,) = op.expand(CaseRequest(), "cpu")
    assert dict(case.dims) == {"B": 1, "H": 2, "Sq": 16, "D": 8, "Hk": 2, "Sk": 16}
    (grouped,) = op.expand(CaseRequest(dims={"Hk": [1]}), "cpu")
    assert grouped.Hk == 1
    with pytest.raises(UserError, match="where= refuses it"):
        op.expand(CaseRequest(dims={"Hk": [3]}), "cpu")
    assert op.resize(case, {"H": 4}).Hk == 4
    assert op.resize(grouped, {"H": 4}).Hk == 1


def test_supports_gives_the_reason_for_a_refusal(sketches):
    op = sketches["attention"]
    (case,) = op.expand(CaseRequest(), "cpu")
    assert {op["torch"].refusal(variant) for variant in op.option_variants(case)} == {None, "no window"}


def test_compile_can_be_given_another_source():
    @kl.op
    def f(x):
        return x * 1

    def better(x):
        return x

    f.compile(better, fullgraph=True)
    assert f["compile"].fn.source is better
    assert f["compile"].fn.settings["fullgraph"] is True


def test_cases_without_a_dtype_have_the_first_declared_dtype():
    op = kl.op(dtypes=["bfloat16", "float32"], cases=kl.cases(shape=[(4,)]))(lambda x: x)
    assert [case.dtype for case in op.expand(CaseRequest(), "cpu")] == ["bfloat16"]
    assert [case.dtype for case in op.expand(CaseRequest(dtypes=["float32"]), "cpu")] == ["float32"]


def test_a_dim_that_only_the_cases_name_is_refused():
    @kl.op(cases=kl.cases(shape=[(4, 4)], Q=[4]))
    def f(x):
        return x

    with pytest.raises(UserError, match="op f has no dim Q, which its cases= name"):
        f.expand(CaseRequest(), "cpu")


def test_a_where_that_fails_is_named():
    @kl.op(cases=kl.cases(shape=[(4, 4)]), where=lambda case: case.Q > 3)
    def f(x):
        return x

    with pytest.raises(UserError, match=r"op f: where= failed at 4×4 · float32: AttributeError: .*'Q'"):
        f.expand(CaseRequest(), "cpu")


def test_an_option_may_be_a_tensor():
    @kl.op(options=dict(w=[torch.ones(3), torch.zeros(3)]))
    def f(x, *, w):
        return x

    (case,) = f.expand(CaseRequest(shapes=[(4,)]), "cpu")
    assert len(f.option_variants(case)) == 2


def test_option_values_read_from_json_are_the_declared_ones():
    @kl.op(options={"dims": [(0, 1), None], "flag": [True, 1]})
    def f(x, *, dims, flag):
        return x

    (case,) = f.expand(CaseRequest(shapes=[(4,)]), "cpu")
    read = f.case(json.loads(json.dumps(case.to_json())))
    assert read == case
    assert read.options["dims"] == (0, 1)
    variants = f.option_variants(case)
    assert [f.case(v.to_json()).options for v in variants] == [v.options for v in variants]


def test_dims_may_be_constants_or_derived_from_others():
    @kl.op(
        args=dict(x=kl.tensor("1 S D"), w=kl.tensor("2*D"), half=kl.tensor("D/2"), i=kl.index("S", below="2*D")),
        cases=kl.cases(S=[3], D=[8, 5]),
    )
    def f(x, w, half, i):
        return x

    (case,) = f.expand(CaseRequest(), "cpu")  # not D = 5, whose half is not whole
    assert f.dims == ("S", "D")
    assert [f.sizes(arg, case) for arg in f.args.values()] == [(1, 3, 8), (16,), (4,), (3,)]
    assert f.index_bound(f.args["i"], case) == 16
    assert not is_defined(f, case.with_(dims={"S": 3, "D": 5}))
    with pytest.raises(UserError, match=r"not defined for S=3 D=5: D/2 is not a whole number at D=5"):
        f.expand(CaseRequest(dims={"D": [5]}), "cpu")


def test_a_derived_dim_keeps_the_condition_of_where():
    @kl.op(args=dict(x=kl.tensor("N/2")), where=lambda case: case.N > 4, cases=kl.cases(N=[2, 4, 6, 7]))
    def f(x):
        return x

    assert [case.N for case in f.expand(CaseRequest(), "cpu")] == [6]


def test_an_implementation_with_clone_is_called_with_copies():
    @kl.op
    def double(x):
        return x * 2

    double.impl("in-place", clone=True)(lambda x: x.mul_(2))
    x = torch.randn(4, 6, requires_grad=True)
    result = double["in-place"](x)
    assert torch.equal(result, x * 2)
    result.sum().backward()
    assert torch.equal(x.grad, torch.full_like(x, 2.0))
    assert double["in-place"].changes_inputs
    with pytest.raises(UserError, match="mutates= is not needed"):
        double.impl("both", clone=True, mutates=["x"])


@pytest.mark.parametrize("x", [torch.randn(6, 4).t(), torch.randn(6, 8)[:, 1:6], torch.randn(6, 8)[:, ::2]])
def test_a_copy_for_a_call_has_the_strides_of_the_input(x):
    assert (copy_of(x).stride(), torch.equal(copy_of(x), x)) == (x.stride(), True)


def test_elements_that_share_memory_are_apart_in_a_copy():
    x = torch.randn(4, 1).expand(4, 5)
    assert torch.equal(copy_of(x).add_(1), x + 1)


def test_gradients_are_asked_of_floats_unless_they_are_declared_without():
    @kl.op(
        args=dict(
            x=kl.tensor("N"), table=kl.tensor("N", gradient=False), i=kl.index("N", below=3), keep=kl.mask("N"),
            codes=kl.tensor("N", dtype="int8", values=lambda *_: None),
        )
    )  # fmt: skip
    def f(x, table, i, keep, codes):
        return x

    assert f.gradient_args == ("x",)
    case = f.expand(CaseRequest(shapes=[(4,)], dtypes=["bfloat16"]), "cpu")[0]
    assert [f.dtype_of(arg, case) for arg in f.args.values()] == ["bfloat16", "bfloat16", "int64", "bool", "int8"]
