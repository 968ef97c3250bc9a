"""`kl.run`: checks and times an op as `klab run` does; `kl.load`: a run from disk. Both return a `Run`.

Implementations run in processes of their own: one that crashes or hangs does not take the caller with it. No torch.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from kernellab.api.command_words import Target, command_words
from kernellab.base.errors import UserError
from kernellab.record import verdict
from kernellab.record.derived import DerivedRecord, DerivedResult
from kernellab.record.reading import load as read_record

if TYPE_CHECKING:
    import pandas

    from kernellab.reporting.notebook.progress import NotebookProgress
    from kernellab.reporting.terminal.progress import LiveProgress, PlainProgress
    from kernellab.running.processes.worker_template import WorkerTemplate

Names = str | Sequence[str]
Sizes = str | Sequence[int] | Sequence[Sequence[int]]


class Run:
    """The results of a run: a table as text, a table with charts in a notebook, CSV, JSON and a data frame.

    `record` is the record with its verdicts, `folder` where it is kept.
    """

    def __init__(self, record: DerivedRecord, folder: Path) -> None:
        self.record, self.folder = record, folder.resolve()

    @property
    def results(self) -> list[DerivedResult]:
        """One result for each op, implementation and case, with `derived`, its verdicts."""
        return self.record["results"]

    @property
    def exit_code(self) -> int:
        """That of `klab run`: 0 all is well, 1 something is wrong, 3 cannot tell."""
        return verdict.exit_code(self.record)

    def to_csv(self, file: str | Path | None = None) -> str:
        """One line for each result and pass, as docs/exports.md describes; also written to `file` if that is given."""
        from kernellab.reporting.exports.csv_text import results_csv

        return _written("to_csv", results_csv(self.record), file)

    def to_json(self, file: str | Path | None = None) -> str:
        """The record with its verdicts and findings, the document of `klab run --json`; also written to `file` if that
        is given."""
        from kernellab.explaining.document import add_findings

        add_findings(self.record)
        return _written("to_json", json.dumps(self.record, indent=1, allow_nan=False) + "\n", file)

    def to_html(self, file: str | Path | None = None) -> Path:
        """Writes the report as one page to `file`, by default to the run's folder; returns its path."""
        from kernellab.cli import report_file
        from kernellab.reporting.html.packages import MissingPackages
        from kernellab.reporting.report.parts import section

        place = Path(file) if file is not None else self.folder / report_file.NAME
        try:
            report_file.write([section.Run(self.record, [self.folder])], place)
        except MissingPackages as missing:
            raise UserError(f"to_html needs {missing.needs}: {missing.install}") from None
        return place

    def to_pandas(self) -> pandas.DataFrame:
        """One row for each result and pass, with the columns of `to_csv`."""
        from kernellab.reporting.exports.frame import data_frame

        return data_frame(self.record)

    def __str__(self) -> str:
        from kernellab.reporting.terminal import results
        from kernellab.reporting.text.console import printed

        return printed(lambda out: results.show(self.record, out)).rstrip()

    __repr__ = __str__

    def _repr_html_(self) -> str:
        from kernellab.reporting.notebook.results import render

        return render(self.record)


def load(run: str | Path) -> Run:
    """A run from its folder, its run.json or its journal, with today's verdicts. Needs no torch."""
    path = Path(run)
    return Run(verdict.derive(read_record(path)), path if path.is_dir() else path.parent)


def run(
    *targets: Target,
    impl: Names = (),
    shape: Sizes = (),
    dtype: object = (),
    options: Mapping[str, object] | None = None,
    passes: Names = (),
    device: str | None = None,
    seed: int | None = None,
    timeout: float | None = None,
    seconds: float | None = None,
    rounds: int | None = None,
    precision: float | None = None,
    timer: Names = (),
    cache: Names = (),
    peers: bool = False,
    quick: bool = False,
    only_times: bool = False,
    out: str | Path | None = None,
    progress: bool = True,
    **dims: object,
) -> Run:
    """Check the implementations of ops and time those that are right, as `klab run` does. Dims: `run("gelu", N=4096)`.

    A target is an op, its name, a file or `package.module:op`. `options` are the op's. The record is kept in `out`, by
    default in `runs/WHEN-NAME`. An interrupted run keeps its record, too.
    """
    from kernellab.cli.run_folder import runs_folder
    from kernellab.history.index import add_run

    done = execute(
        "run",
        targets,
        {
            "impl": impl,
            "shape": shape,
            "dtype": dtype,
            "opt": options,
            "pass": passes,
            "device": device,
            "seed": seed,
            "timeout": timeout,
            "seconds": seconds,
            "rounds": rounds,
            "precision": precision,
            "timer": timer,
            "cache": cache,
            "peers": peers,
            "quick": quick,
            "only-times": only_times,
            "out": out,
        },
        dims,
        progress=progress,
    )
    add_run(done.folder, runs_folder())
    return done


def execute(
    verb: Literal["run", "check"],
    targets: Sequence[Target],
    options: Mapping[str, object],
    dims: Mapping[str, object],
    *,
    progress: bool,
    template: WorkerTemplate | None = None,
) -> Run:
    """Carries out `klab VERB` with these targets and options in this process, and returns its run.

    `template`: what workers are forked from, where several runs of this process share one.
    """
    from kernellab import cli
    from kernellab.cli import measurement, timed_measurement
    from kernellab.cli.verbs import check
    from kernellab.running.parent.progress import SilentProgress
    from kernellab.running.processes.startup import refuse_workers_of_workers

    refuse_workers_of_workers()
    words = [verb, *command_words(targets, options, dims)]
    _, args = cli.parse(words)
    settings = check.read_settings(args) if verb == "check" else timed_measurement.read_settings(args)
    journal, settings = measurement.start(args.out, settings, ["klab", *words])
    shown = _shown_progress() if progress else None
    try:
        measurement.measure(settings, journal, shown or SilentProgress(), template)
    finally:
        if shown is not None:
            shown.stop()
        journal.close()
    return Run(verdict.derive(journal.record), journal.folder)


def _shown_progress() -> NotebookProgress | LiveProgress | PlainProgress:
    from kernellab.reporting.notebook.progress import notebook_progress
    from kernellab.reporting.terminal.progress import stderr_progress

    return notebook_progress() or stderr_progress()


def _written(function: str, text: str, file: str | Path | None) -> str:
    if file is not None:
        try:
            Path(file).write_text(text, encoding="utf-8")
        except OSError as error:
            raise UserError(
                f"{function}: {file} cannot be written: {error.strerror or error}. Name a file in a folder that exists"
            ) from None
    return text
