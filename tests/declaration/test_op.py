"""Declaring ops: what the API carries and what it refuses."""

import pytest
import torch

import kernellab as kl
from kernellab.base.errors import UserError
from kernellab.declaration import inputs
from kernellab.declaration.case import Case
from kernellab.declaration.case_request import CaseRequest
from kernellab.declaration.targets import Target, load
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


def test_every_shipped_way_is_callable():
    x = torch.randn(8, 16)
    for name in ("manual", "torch", "cpp"):
        assert torch.allclose(kl.ops.square[name](x), x * x)


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


def test_timing_takes_the_first_option_and_checking_all():
    gelu = kl.ops.gelu
    (case,) = gelu.expand(CaseRequest(shapes=[(4, 4)], dtypes=["float32"]), "cpu")
    assert case.approximate == "tanh"
    assert [v.approximate for v in gelu.option_variants(case)] == ["tanh", "none"]
    (other,) = gelu.expand(CaseRequest(shapes=[(4, 4)], options={"approximate": ["none"]}), "cpu")
    assert other.approximate == "none"


def test_cross_entropy_has_indices_below_a_dim_with_sentinels(sketches):
    op = sketches["cross_entropy"]
    (case,) = op.expand(CaseRequest(), "cpu")
    made = inputs.make_inputs(op, case, seed=1)
    target = made["target"]
    assert made["logits"].shape == (64, 512)
    assert target.dtype == torch.int64
    assert int(target.max()) < 512
    assert int(target.min()) == -100
    assert (target == -100).float().mean() < 0.5
    assert op.dims == ("M", "V")
    assert len(op.option_variants(case)) == 6


def test_attention_has_dims_that_follow_others_and_an_optional_input(sketches):
    op = sketches["attention"]
    (case,) = op.expand(CaseRequest(), "cpu")
    assert dict(case.dims) == {"B": 1, "H": 2, "Sq": 16, "D": 8, "Hk": 2, "Sk": 16}
    assert case.bias is False
    assert inputs.make_inputs(op, case, seed=0)["bias"] is None
    with_bias = case.with_(options={**case.options, "bias": True})
    assert inputs.make_inputs(op, with_bias, seed=0)["bias"].shape == (1, 2, 16, 16)
    (grouped,) = op.expand(CaseRequest(dims={"Hk": [1]}), "cpu")
    assert grouped.Hk == 1
    with pytest.raises(UserError, match="where= says no"):
        op.expand(CaseRequest(dims={"Hk": [3]}), "cpu")
    refusals = {op["torch"].refusal(v) for v in op.option_variants(case)}
    assert refusals == {None, "no window"}


def test_the_same_seed_gives_the_same_inputs_and_another_seed_others():
    op = kl.ops.add
    case = Case({"...": (8,), "N": 8}, "float32")
    a, b, c = (inputs.make_inputs(op, case, seed) for seed in (1, 1, 2))
    assert torch.equal(a["x"], b["x"])
    assert not torch.equal(a["x"], c["x"])
    assert not torch.equal(a["x"], a["y"])


def test_cost_counts_bytes_of_tensors_and_numbers():
    x = torch.empty(4, 8, dtype=torch.bfloat16)
    cost = kl.Cost(read=[x, None], write=[100], flops={"fp32": 9})
    assert cost.to_json() == {"bytes_read": 64, "bytes_written": 100, "flops": {"fp32": 9}}


def test_kinds_come_from_names_and_can_be_said():
    @kl.op
    def f(x):
        return x

    f.impl("triton-v2")(lambda x: x)
    f.impl("liger", kind="triton")(lambda x: x)
    f.impl("anything")(lambda x: x)
    assert [f[n].kind.name for n in ("triton-v2", "liger", "anything")] == ["triton", "triton", "python"]


def test_compile_can_be_given_another_source():
    @kl.op
    def f(x):
        return x * 1

    def better(x):
        return x

    f.compile(better, fullgraph=True)
    assert f["compile"].fn.source is better
    assert f["compile"].fn.settings["fullgraph"] is True


def _plain(x):
    return x


def _two(x, i):
    return x


def _optioned(x, *, p=3):
    return x


MN = dict(x=kl.tensor("M N"))


@pytest.mark.parametrize(
    ("declare", "message"),
    [
        (lambda: kl.op(args=MN, reduces=["N"])(_plain), r"op _plain: reduces=\['N'\] is no string: .* reduces='N'"),
        (lambda: kl.op(args=MN, reduces=3)(_plain), r"op _plain: reduces=3 is no string: .* reduces='N'"),
        (lambda: kl.op(args=MN, dims=dict(N="J"))(_plain), "dim N is as large as J, which is no dim: known: M, N"),
        (lambda: kl.op(args=MN, dims=dict(N="M", M="N"))(_plain), "as large as M, which has no size before it"),
        (lambda: kl.op(args=MN, dims=dict(J="M"))(_plain), "op _plain has no dim J"),
        (lambda: kl.op(args=MN, dims=dict(N=2.5))(_plain), "dim N is 2.5: write another dim's name, or a whole"),
        (lambda: kl.op(args=MN, dims=["N"])(_plain), r'dims= is a list: write dims=dict\(Hk="H"\)'),
        (
            lambda: kl.op(args=dict(**MN, i=kl.index("M", below="K")))(_two),
            "op _two: index i is below K, which is no dim: known: M, N",
        ),
        (
            lambda: kl.op(args=dict(**MN, i=kl.index("M", below="N", sentinel="ignore")))(_two),
            "the sentinel of i is ignore, which is no option: write a number",
        ),
        (lambda: kl.op(args=dict(x="M N"))(_plain), r"describes x by 'M N': write x=kl.tensor\('M N'\)"),
        (lambda: kl.op(args=["x"])(_plain), "op _plain: args= is a list: write args=dict"),
        (lambda: kl.op(options={"p": 3})(_optioned), r"option p is 3: list its values, p=\[3\]"),
        (lambda: kl.op(options={"p": "abc"})(_optioned), r"option p is 'abc': list its values, p=\['abc'\]"),
        (lambda: kl.op(options=["p"])(_optioned), "options= is a list: write options=dict"),
        (lambda: kl.op(options={"p": []})(_optioned), "option p lists no values"),
        (
            lambda: kl.op(dtypes="float32")(_plain),
            r"op _plain: dtypes='float32' is no list: write dtypes=\['float32'\]",
        ),
        (lambda: kl.op(dtypes=["float23"])(_plain), "op _plain: dtypes=: no dtype 'float23': did you mean float32"),
        (lambda: kl.op(redcues="N")(_plain), "op _plain: there is no redcues= to declare: did you mean reduces"),
        (lambda: kl.op(where=True)(_plain), "op _plain: where= is True: write a function"),
        (lambda: kl.op(cost=3)(_plain), "op _plain: cost= is 3: write a function"),
        (lambda: kl.op(torch.sin), "its reference, sin, is no plain Python function: write one that calls it"),
        (lambda: kl.op(name="f")(torch.nn.ReLU()), "op f: its reference, a ReLU, is no plain Python function"),
        (lambda: kl.op(_plain).impl("a", mutates="x"), r"a of _plain: mutates='x' is no list: write mutates=\['x'\]"),
        (lambda: kl.op(_plain).impl("a", supports=True), "a of _plain: supports= is True: write a function"),
        (lambda: kl.tensor(2), "2 is not a list of dim names: write them in a string"),
        (lambda: kl.tensor("M N ..."), r"the dims that `...` stands for come first: write '... N'"),
        (lambda: kl.optional("N"), r"kl.optional\('N'\): write .* kl.optional\(kl.tensor\('N'\)\)"),
        (lambda: kl.index("M"), r"kl.index\('M'\): nothing says what .* below: write kl.index\('M', below='V'\)"),
        (lambda: kl.index("M", below=0), "below=0 is no dim and no size"),
        (lambda: kl.index("M", below="V", sentinel=0.5), "sentinel=0.5: write a whole number or an option's name"),
        (lambda: kl.op(args=dict(y=kl.tensor("M")))(_plain), "describes y, the function takes x"),
        (lambda: kl.op(options={"mode": ["a"]})(_plain), "not a keyword-only parameter"),
        (lambda: kl.op(reduces="N")(_plain), "has no dim N"),
        (lambda: kl.op(lambda: 1), "takes no tensor"),
        (lambda: kl.tensor("M, N"), "not a list of dim names"),
        (lambda: kl.op(_plain).impl("manual"), "already has an implementation named manual"),
        (lambda: kl.op(_plain).impl("a", mutates=["z"]), "mutates z"),
        (lambda: kl.op(_plain).impl("a", kind="tritn")(_plain), "did you mean triton"),
        (lambda: kl.op(_plain)["tosch"], "has no implementation tosch"),
        (lambda: kl.op(cases=kl.cases(dtype=["float31"]))(_plain), "no dtype"),
    ],
)
def test_mistakes_in_a_declaration_are_named(declare, message):
    with pytest.raises(UserError, match=message):
        declare()


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (dict(shape=[(4, -4)]), "shape: -4 is no size"),
        (dict(shape=[(4, 2.5)]), "shape: 2.5 is no size"),
        (dict(shape=64), "shape=64: write a list of shapes"),
        (dict(shape=[4, 4]), "shape=4: write a list of shapes"),
        (dict(M=["four"]), "M: 'four' is no size"),
        (dict(shape=[(4, 4)], cpu=dict(shape=[(4, None)])), "shape: None is no size"),
        (dict(shape=[(4, 4)], dtype=[torch.float32]), "no dtype torch.float32: did you mean float32"),
    ],
)
def test_cases_that_are_no_cases_are_refused_where_they_stand(values, said):
    with pytest.raises(UserError, match=said):
        kl.cases(**values)


def test_more_mistakes_in_a_declaration_are_named():
    def f(x):
        return x

    with pytest.raises(UserError, match="cannot be named 3"):
        kl.op(name=3)(f)
    with pytest.raises(UserError, match=r"cases= is a list: write cases=kl.cases"):
        kl.op(cases=[(4, 4)])(f)
    op = kl.op(f)
    with pytest.raises(UserError, match="way of f is a int, not a function"):
        op.impl("way")(3)
    with pytest.raises(UserError, match=r'write @f.impl\("name"\)'):
        op.impl(lambda x: x)


def test_cases_without_a_dtype_are_of_the_first_that_is_declared():
    op = kl.op(dtypes=["bfloat16", "float32"], cases=kl.cases(shape=[(4,)]))(_plain)
    assert [case.dtype for case in op.expand(CaseRequest(), "cpu")] == ["bfloat16"]
    assert [case.dtype for case in op.expand(CaseRequest(dtypes=["float32"]), "cpu")] == ["float32"]


def test_a_dim_that_only_the_cases_have_is_refused():
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


def test_options_nobody_could_check_are_refused():
    with pytest.raises(UserError, match="its options a, b have 9000000 combinations"):

        @kl.op(options=dict(a=range(3000), b=range(3000)))
        def f(x, *, a, b):
            return x


def test_an_option_may_be_a_tensor():
    @kl.op(options=dict(w=[torch.ones(3), torch.zeros(3)]))
    def f(x, *, w):
        return x

    (case,) = f.expand(CaseRequest(shapes=[(4,)]), "cpu")
    assert len(f.option_variants(case)) == 2


def test_a_name_no_encoding_knows_still_has_inputs():
    op = kl.op(name="\udc80", cases=kl.cases(shape=[(4,)]))(lambda x: x)
    (case,) = op.expand(CaseRequest(), "cpu")
    assert inputs.make_inputs(op, case, 0)["x"].shape == (4,)
