"""Random words: the published generator, a function of seed, offset and index alone, in every language."""

import os
import subprocess
import sys

import pytest
import torch

from kernellab.ops.maps_cpp import entry
from kernellab.ops.philox import Stream, philox
from support.klab import HERE, SRC

ONES = 0xFFFFFFFF
# Counter, key and words, from the known answers that come with Random123 (philox4x32, 10 rounds).
KNOWN_ANSWERS = [
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((ONES, ONES, ONES, ONES), (ONES, ONES), (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]


@pytest.mark.parametrize(("counter", "key", "words"), KNOWN_ANSWERS)
def test_the_reference_gives_the_published_words(counter, key, words):
    assert tuple(map(int, philox(tuple(map(torch.tensor, counter)), key))) == words


def test_an_element_has_its_word_of_its_counter_whatever_the_shape_is():
    seed, offset = 0x299F31D0A4093822, 0x0370734413198A2E
    words = Stream(seed, offset).words((3, 7), torch.device("cpu"))
    for index in (0, 5, 20):
        counter = (index // 4, 0, offset & ONES, offset >> 32)
        expected = philox(tuple(map(torch.tensor, counter)), (seed & ONES, seed >> 32))[index % 4]
        assert words.flatten()[index] == expected
    assert torch.equal(words.flatten(), Stream(seed, offset).words((21,), torch.device("cpu")))
    assert torch.equal(words, Stream(seed - (1 << 64), offset).words((3, 7), torch.device("cpu")))


@pytest.mark.parametrize("col", [1, 3])
def test_cpp_draws_the_same_words_at_indices_beyond_32_bits(col):
    """A gradient of ones shows the mask. The strides of the indices are arguments of the C function."""
    rows, cols, index_row, half = 5, 70, (1 << 35) + 2, 1 << 31
    seed, offset = (1 << 40) + 3, (1 << 33) + 1
    ones, mask = torch.ones(rows, cols), torch.empty(rows, cols)
    gradient = entry("dropout_add", "dropout_gradient", torch.float32)
    gradient(ones, cols, 1, mask, cols, 1, 0, index_row, col, seed, offset, half - 1, 1.0, rows, cols, 1)
    index = torch.arange(rows)[:, None] * index_row + torch.arange(cols) * col
    block = index // 4
    upper = [torch.full_like(block, half) for half in (offset & ONES, offset >> 32)]
    words = torch.stack(philox((block & ONES, block >> 32, *upper), (seed & ONES, seed >> 32)))
    assert torch.equal(mask.bool(), words.gather(0, (index % 4)[None])[0] < half)


def test_triton_draws_the_same_words_and_so_does_tritons_own_generator():
    process = subprocess.run(
        [sys.executable, "-W", "ignore", HERE / "support" / "philox_words.py"],
        env={**os.environ, "PYTHONPATH": f"{SRC}{os.pathsep}{HERE}"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert process.stdout == "all agree\n", process.stderr[-3000:]
