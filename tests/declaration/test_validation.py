"""Mistakes in a declaration are refused, and the message says what to write instead."""

import pytest
import torch

import kernellab as kl
from kernellab.base.errors import UserError


def _plain(x):
    return x


def _with_index(x, i):
    return x


def _with_option(x, *, p=3):
    return x


MN = dict(x=kl.tensor("M N"))


@pytest.mark.parametrize(
    ("declare", "message"),
    [
        (lambda: kl.op(args=MN, reduces=["N"])(_plain), r"op _plain: reduces=\['N'\] is not a string: .* reduces='N'"),
        (lambda: kl.op(args=MN, reduces=3)(_plain), r"op _plain: reduces=3 is not a string: .* reduces='N'"),
        (
            lambda: kl.op(args=MN, dims=dict(N="J"))(_plain),
            "as large as J, which is not a dim: known: M, N",
        ),
        (
            lambda: kl.op(args=MN, dims=dict(N="M", M="N"))(_plain),
            "as large as M, which has no size before it",
        ),
        (lambda: kl.op(args=MN, dims=dict(J="M"))(_plain), "op _plain has no dim J"),
        (lambda: kl.op(args=MN, dims=dict(N=2.5))(_plain), "dim N is 2.5: write another dim's name, or an integer"),
        (lambda: kl.op(args=MN, dims=["N"])(_plain), r'dims= is a list: write dims=dict\(Hk="H"\)'),
        (
            lambda: kl.op(args=dict(**MN, i=kl.index("M", below="K")))(_with_index),
            "op _with_index: index i is below K, which is not a dim: known: M, N",
        ),
        (
            lambda: kl.op(args=dict(**MN, i=kl.index("M", below="N", sentinel="ignore")))(_with_index),
            "the sentinel of i is ignore, which is not an option: write a number",
        ),
        (lambda: kl.op(args=dict(x="M N"))(_plain), r"describes x by 'M N': write x=kl.tensor\('M N'\)"),
        (lambda: kl.op(args=["x"])(_plain), "op _plain: args= is a list: write args=dict"),
        (lambda: kl.op(options={"p": 3})(_with_option), r"option p is 3: list its values, p=\[3\]"),
        (lambda: kl.op(options={"p": "abc"})(_with_option), r"option p is 'abc': list its values, p=\['abc'\]"),
        (lambda: kl.op(options=["p"])(_with_option), "options= is a list: write options=dict"),
        (lambda: kl.op(options={"p": []})(_with_option), "option p lists no values"),
        (
            lambda: kl.op(dtypes="float32")(_plain),
            r"op _plain: dtypes='float32' is not a list: write dtypes=\['float32'\]",
        ),
        (lambda: kl.op(dtypes=["float23"])(_plain), "op _plain: dtypes=: no dtype 'float23': did you mean float32"),
        (lambda: kl.op(redcues="N")(_plain), "op _plain: redcues= cannot be declared: did you mean reduces"),
        (lambda: kl.op(where=True)(_plain), "op _plain: where= is True: write a function"),
        (lambda: kl.op(cost=3)(_plain), "op _plain: cost= is 3: write a function"),
        (lambda: kl.op(torch.sin), "its reference, sin, is not a plain Python function: write one that calls it"),
        (lambda: kl.op(name="f")(torch.nn.ReLU()), "op f: its reference, a ReLU, is not a plain Python function"),
        (
            lambda: kl.op(_plain).impl("a", mutates="x"),
            r"_plain: mutates='x' is not a list: write mutates=\['x'\]",
        ),
        (lambda: kl.op(_plain).impl("a", supports=True), "a of _plain: supports= is True: write a function"),
        (lambda: kl.tensor(2), "2 is not a list of dim names: write them in a string"),
        (lambda: kl.tensor("M N ..."), r"the dims that `...` stands for come first: write '... N'"),
        (lambda: kl.optional("N"), r"kl.optional\('N'\): write .* kl.optional\(kl.tensor\('N'\)\)"),
        (lambda: kl.index("M"), r"kl.index\('M'\): below= is missing: write kl.index\('M', below='V'\)"),
        (lambda: kl.index("M", below=0), "below=0 is neither a dim nor a size"),
        (lambda: kl.index("M", below="V", sentinel=0.5), "sentinel=0.5: write an integer or an option's name"),
        (lambda: kl.op(args=dict(y=kl.tensor("M")))(_plain), "describes y, the function takes x"),
        (lambda: kl.op(options={"mode": ["a"]})(_plain), "not a keyword-only parameter"),
        (lambda: kl.op(reduces="N")(_plain), "has no dim N"),
        (lambda: kl.op(lambda: 1), "takes no tensor"),
        (lambda: kl.tensor("M, N"), "not a list of dim names"),
        (lambda: kl.op(_plain).impl("manual"), "already has an implementation named manual"),
        (lambda: kl.op(_plain).impl("a", mutates=["z"]), "mutates= names z"),
        (lambda: kl.op(_plain).impl("a", contiguous=["z"]), "contiguous= names z"),
        (lambda: kl.op(_plain).impl("a", contiguous="x"), r"write contiguous=\['x'\]"),
        (lambda: kl.op(values=dict(y=kl.positive))(_plain), "values= describes y"),
        (lambda: kl.op(values=dict(x="positive"))(_plain), "values= of x is 'positive': write x=kl.positive"),
        (lambda: kl.op(values=kl.positive)(_plain), r"write values=dict\(x=kl.positive\)"),
        (lambda: kl.op(args=dict(x=kl.index("N", below=2)), values=dict(x=kl.positive))(_plain), "x is an index"),
        (
            lambda: kl.op(args=dict(x=kl.mask("N", values=kl.positive)))(_plain),
            "kl.positive makes floats, but x is bool",
        ),
        (lambda: kl.tensor("N", values="positive"), "values='positive': write kl.positive"),
        (lambda: kl.tensor("N", dtype="int8"), "a tensor of int8 has no usual values"),
        (lambda: kl.tensor("N", dtype="float31"), "no dtype 'float31'"),
        (lambda: kl.tensor("2N"), "a derived size without spaces"),
        (lambda: kl.index("M", below="2V"), "neither a dim nor a size"),
        (lambda: kl.op(args=dict(x=kl.index("M", below="2*V")))(_plain), "below V, which is not a dim"),
        (lambda: kl.op(_plain).impl("a", kind="tritn")(_plain), "did you mean triton"),
        (lambda: kl.op(_plain)["tosch"], "has no implementation tosch"),
        (lambda: kl.op(cases=kl.cases(dtype=["float31"]))(_plain), "no dtype"),
    ],
)
def test_a_mistake_in_a_declaration_is_named(declare, message):
    with pytest.raises(UserError, match=message):
        declare()


def test_names_cases_and_functions_of_other_types_are_refused():
    def f(x):
        return x

    with pytest.raises(UserError, match="cannot be named 3"):
        kl.op(name=3)(f)
    with pytest.raises(UserError, match=r"cases= is a list: write cases=kl.cases"):
        kl.op(cases=[(4, 4)])(f)
    op = kl.op(f)
    with pytest.raises(UserError, match="implementation mine of f is a int, not a function"):
        op.impl("mine")(3)
    with pytest.raises(UserError, match=r'write @f.impl\("name"\)'):
        op.impl(lambda x: x)


def test_options_with_too_many_combinations_are_refused():
    with pytest.raises(UserError, match="its options a, b have 9000000 combinations"):

        @kl.op(options=dict(a=range(3000), b=range(3000)))
        def f(x, *, a, b):
            return x
