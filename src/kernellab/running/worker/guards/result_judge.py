"""Judges the results that were sampled while implementations were timed, when their calls are over."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch

from kernellab.accuracy.outputs import Wrong
from kernellab.accuracy.prepared_trial import CannotCheck
from kernellab.accuracy.spot_check import Sample, SpotCheck
from kernellab.running.worker.guards.timing_guard import ResultSample

Note = Callable[[str, str], None]  # of an implementation


@dataclass(frozen=True)
class BatchSample:
    """A sampled result of a batch, and the seed of its inputs."""

    seed: int
    sample: Sample


@dataclass(frozen=True)
class ResultJudge:
    """Makes oracles when it judges, and forgets them.

    `of_content` takes the index of a content of the input sets, `of_seed` the seed of inputs that were used once.
    `checked_errors`: what the check found, by implementation.
    """

    of_content: Callable[[int], SpotCheck]
    of_seed: Callable[[int], SpotCheck]
    checked_errors: Mapping[str, float]

    def judge_rounds(self, samples: Mapping[str, Sequence[ResultSample]], note: Note) -> dict[str, Wrong]:
        """What is wrong with the results of each implementation, if anything is."""
        contents = sorted({sample.content for results in samples.values() for sample in results})
        wrongs: dict[str, Wrong] = {}
        for content in contents:
            by_impl = {n: [s.sample for s in results if s.content == content] for n, results in samples.items()}
            wrongs = {**self._judge(self.of_content, content, by_impl, note), **wrongs}
        return wrongs

    def judge_batches(self, batches: Mapping[str, Sequence[BatchSample]], note: Note) -> dict[str, Wrong]:
        """The same for each implementation's last batch: an oracle for every batch would take long."""
        wrongs: dict[str, Wrong] = {}
        for name, samples in batches.items():
            for batch in samples[-1:]:
                wrongs |= self._judge(self.of_seed, batch.seed, {name: [batch.sample]}, note)
        return wrongs

    def _judge(
        self,
        make_spot: Callable[[int], SpotCheck],
        argument: int,
        samples: Mapping[str, Sequence[Sample]],
        note: Note,
    ) -> dict[str, Wrong]:
        try:
            spot = make_spot(argument)
        except (CannotCheck, torch.OutOfMemoryError) as error:
            for name in samples:
                note(name, f"not all of its results were compared: {error}")
            return {}
        found = {n: spot.find_wrong(results, self.checked_errors.get(n, 0.0)) for n, results in samples.items()}
        return {name: wrong for name, wrong in found.items() if wrong is not None}
