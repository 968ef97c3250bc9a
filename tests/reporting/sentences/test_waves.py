"""How a grid fills a GPU, in a sentence."""

import pytest

from kernellab.gpumodel.occupancy import occupancy
from kernellab.gpumodel.waves import waves
from kernellab.machine.chips import chip
from kernellab.reporting.sentences.waves import describe_fill

H100 = chip("sm_90")


@pytest.mark.parametrize(
    ("blocks", "cluster", "sentence"),
    [
        (300, 1, "300 blocks over 132 SMs: 3 waves, the last with 36 blocks; 76 % efficient if compute-bound"),
        (264, 1, "264 blocks over 132 SMs: 2 waves, all full; 100 % efficient if compute-bound"),
        (131, 1, "131 blocks over 132 SMs: 1 wave, 1 SM idle; 99 % efficient if compute-bound"),
        (128, 8, "128 blocks over 128 of 132 SMs: 1 wave, all full; 97 % efficient if compute-bound"),
    ],
)
def test_the_sentence_names_the_last_wave_and_its_cost(blocks, cluster, sentence):
    assert describe_fill(waves(blocks, 132, occupancy(H100, 256, 32), H100, cluster=cluster)) == sentence
