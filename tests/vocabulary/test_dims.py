"""Dims as an author writes them."""

import pytest

from kernellab.vocabulary.dims import is_derived, is_valid, names_in, obstacle, size_of

SIZES = {"N": 6, "D": 5, "...": (2, 3)}


@pytest.mark.parametrize(
    ("dim", "size", "names"),
    [
        ("N", 6, ("N",)),
        ("...", (2, 3), ("...",)),
        ("1", 1, ()),
        ("2*N", 12, ("N",)),
        ("N/2", 3, ("N",)),
        ("N+1", 7, ("N",)),
        ("N-D", 1, ("N", "D")),
        ("(D+1)//2", 3, ("D",)),
        ("D//2", 2, ("D",)),
    ],
)
def test_the_size_of_a_dim_follows_from_those_it_names(dim, size, names):
    assert is_valid(dim) or dim == "..."
    assert size_of(dim, SIZES) == size
    assert names_in(dim) == names
    assert obstacle(dim, SIZES) is None
    assert is_derived(dim) == (dim not in SIZES)


@pytest.mark.parametrize(
    ("dim", "reason"),
    [
        ("D/2", "D/2 is not a whole number at D=5"),
        ("D-N", "D-N is negative at D=5 N=6"),
        ("N/(D-5)", "N/(D-5) is negative at N=6 D=5"),
    ],
)
def test_a_size_that_does_not_exist_is_explained_and_still_counts_as_few_elements(dim, reason):
    assert obstacle(dim, SIZES) == reason
    assert size_of(dim, SIZES) in (0, 2)


@pytest.mark.parametrize("dim", ["2N", "N,", "N**2", "f(N)", "-N", "1.5*N", "N/0", "N//0", "True", "'N'", "N[0]", "/2"])
def test_anything_else_is_not_a_dim(dim):
    assert not is_valid(dim)
