"""Option combinations."""

from kernellab.trials.choosing.pairwise import pairwise


def test_every_pair_of_values_of_two_options_occurs():
    options = {name: [0, 1, 2] for name in "abcd"}
    chosen = pairwise(options)
    assert len(chosen) <= 20
    for a in "abcd":
        for b in "abcd":
            if a < b:
                assert {(c[a], c[b]) for c in chosen} == {(i, j) for i in range(3) for j in range(3)}
