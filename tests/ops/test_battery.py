"""Every hand-written implementation that runs without a GPU passes its battery, whatever inputs its op has."""

import pytest

import kernellab as kl
from kernellab.declaration.targets import shipped_names


def hand_written_impls(name):
    """The implementations in Triton, which is interpreted, and in C++; studies are left out."""
    impls = getattr(kl.ops, name).impls.values()
    return [impl.name for impl in impls if impl.kind.name in ("triton", "cpp") and not impl.study]


@pytest.mark.parametrize("name", [name for name in shipped_names() if hand_written_impls(name)])
def test_hand_written_implementations_pass_a_quick_battery(name, klab):
    impls = ",".join(hand_written_impls(name))
    seen = klab("check", name, "--impl", impls, "--quick", "--device", "cpu")
    assert seen.code == 0, seen.out + seen.err
