"""Kinds of implementations and patterns of their names."""

import pytest

import kernellab as kl
from kernellab.base.errors import UserError
from kernellab.declaration.kinds import KINDS, kind_of, match_names


def test_a_kind_comes_from_the_name_or_is_declared():
    @kl.op
    def f(x):
        return x

    f.impl("triton-v2")(lambda x: x)
    f.impl("liger", kind="triton")(lambda x: x)
    f.impl("anything")(lambda x: x)
    assert [f[n].kind.name for n in ("triton-v2", "liger", "anything")] == ["triton", "triton", "python"]


def test_an_unknown_kind_is_refused_with_a_hint():
    with pytest.raises(UserError, match="did you mean triton"):
        kind_of("a", "tritn")


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_every_kind_runs_somewhere_and_says_why_not_elsewhere(kind):
    assert None in (kind.obstacle("cpu"), kind.obstacle("cuda"))
    assert "" not in (kind.obstacle("cpu"), kind.obstacle("cuda"))


def test_a_name_is_taken_literally_before_it_is_a_pattern():
    assert match_names("a[b]", ["a[b]", "ab"]) == ["a[b]"]
    assert match_names("a[b]", ["ab", "ac"]) == ["ab"]
    assert match_names("a*", ["b"]) == []
