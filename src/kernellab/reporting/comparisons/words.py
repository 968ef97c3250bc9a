"""What a comparison says: its answer in a sentence, its figures as text, and its notes."""

from __future__ import annotations

from collections.abc import Sequence

from kernellab.base.text import plural
from kernellab.comparison.compare import Comparison
from kernellab.comparison.pairs import Pair, ResultKey, SeriesKey
from kernellab.comparison.statuses import StatusChange
from kernellab.declaration.documents import CaseJson
from kernellab.reporting.text import numbers

VERDICTS = ("slower", "faster", "not resolved", "same")  # in the order in which they are shown
_STATUS_ORDER = ("worse", "cannot tell", "changed", "better", "failed before")
_MOST_COMMITS = 3
_FAILED = "could not be measured again"  # a reason that the interval does not show


def answer(comparison: Comparison) -> str:
    """The first sentence: is anything slower or worse?"""
    slower, worse = comparison.with_verdict("slower"), comparison.changes_with("worse")
    of_all = plural(len(comparison.pairs), "time")
    if slower:
        most = max(slower, key=lambda pair: pair.ratio)
        listed = f"{len(slower)} of {of_all} {'is' if len(slower) == 1 else 'are'} slower"
        most_text = f"{name(most.key.result)}: {change(most.ratio)}"
        which = ", most" if len(slower) > 1 else ""
        return f"{listed}{which}: {most_text}{_doubtful(slower)}{_worse(worse, '; ')}."
    if worse:
        return f"{_worse(worse, '').capitalize()}; no time is slower."
    unresolved, cannot_tell = comparison.with_verdict("not resolved"), comparison.changes_with("cannot tell")
    if unresolved or cannot_tell:
        return f"Cannot tell: {_unresolved(unresolved, of_all, cannot_tell)}. Nothing is known to be slower or worse."
    faster = comparison.with_verdict("faster")
    if not comparison.pairs:
        return f"Nothing is worse: the statuses of {plural(_compared(comparison), 'result')} were compared, no times."
    if faster:
        most = min(faster, key=lambda pair: pair.ratio)
        return (
            f"Nothing is slower or worse; {len(faster)} of {of_all} {'is' if len(faster) == 1 else 'are'} faster"
            f"{', most' if len(faster) > 1 else ''}: {name(most.key.result)}: {change(most.ratio)}."
        )
    return f"Nothing is slower or worse: {of_all} {'is' if len(comparison.pairs) == 1 else 'are'} the same."


def _doubtful(slower: Sequence[Pair]) -> str:
    doubtful = sum(not pair.trusted for pair in slower)
    if not doubtful:
        return ""
    return "; it cannot be trusted" if len(slower) == 1 else f"; {doubtful} of these cannot be trusted"


def _worse(worse: Sequence[StatusChange], separator: str) -> str:
    if not worse:
        return ""
    first = f"{name(worse[0].key)} ({worse[0].after.status})"
    others = f" and {plural(len(worse) - 1, 'other')}" if len(worse) > 1 else ""
    return f"{separator}{plural(len(worse), 'result')} failed that did not before: {first}{others}"


def _unresolved(unresolved: Sequence[Pair], of_all: str, cannot_tell: Sequence[StatusChange]) -> str:
    parts = []
    if unresolved:
        widths = sorted(width for pair in unresolved if (width := pair.half_width) is not None)
        typical = f": differences up to about {_width(widths[len(widths) // 2])}" if widths else ""
        parts.append(f"{len(unresolved)} of {of_all} {'is' if len(unresolved) == 1 else 'are'} not resolved{typical}")
    if cannot_tell:
        parts.append(f"{plural(len(cannot_tell), 'result')} could not be judged after and could before")
    return "; ".join(parts)


def _compared(comparison: Comparison) -> int:
    before = sum(len(record["results"]) for record in comparison.after.records[:1])
    return before - len(comparison.only_after)


def counts(comparison: Comparison) -> str:
    """`slower 1, faster 0, not resolved 8, same 1`."""
    return ", ".join(f"{verdict} {len(comparison.with_verdict(verdict))}" for verdict in VERDICTS)


def sides(comparison: Comparison) -> list[str]:
    """One line for each side: its name, its runs and their commits."""
    lines = []
    for when, side in (("before", comparison.before), ("after", comparison.after)):
        runs = f", {len(side.records)} runs" if len(side.records) > 1 else ""
        shown = ", ".join(_short(commit) for commit in side.commits[:_MOST_COMMITS])
        commits = f", commit {shown}{', …' if len(side.commits) > _MOST_COMMITS else ''}" if shown else ""
        lines.append(f"{when}: {side.name}{runs}{commits}")
    return lines


def _short(commit: str) -> str:
    """Twelve digits of a commit, and whether there were changes."""
    digits, plus, changes = commit.partition("+")
    return f"{digits[:12]}{plus}{changes}"


# One pair ----------------------------------------------------------------------------------------------


def ordered(pairs: Sequence[Pair]) -> list[Pair]:
    """The slower ones first, by how much; then the faster, those not resolved, and the same."""
    return sorted(pairs, key=lambda pair: (VERDICTS.index(pair.verdict), -abs(pair.ratio - 1)))


def name(key: ResultKey) -> str:
    """`gelu triton at 4096×4096 · float32`."""
    return f"{key.op} {key.impl} at {case_label(key.case)}"


def case_label(case: CaseJson) -> str:
    return numbers.case_label(case)


def series(key: SeriesKey) -> str:
    """`forward`, and the timer with the state of the cache: `forward · events, cold`."""
    measured = ", ".join(filter(None, (key.timer, key.cache)))
    return f"{key.pass_name} · {measured}" if measured else key.pass_name


def has_several_series(comparison: Comparison) -> bool:
    return len({series(pair.key) for pair in comparison.pairs}) > 1


def change(ratio: float) -> str:
    """How much longer: `+3.1 %`, `−0.25 %`; far from 1 as a factor: `×12`."""
    if not 0.2 < ratio < 5:
        return f"×{numbers.ratio(ratio)}"
    percent = 100 * (ratio - 1)
    return f"{'+' if percent >= 0 else '−'}{_digits(abs(percent))} %"


def _width(half_width: float) -> str:
    return f"a factor of {numbers.ratio(1 + half_width)}" if half_width >= 1 else f"±{_digits(100 * half_width)} %"


def _digits(percent: float) -> str:
    """Two digits, and no finer than a hundredth."""
    return f"{percent:.0f}" if percent >= 9.95 else f"{percent:.1f}" if percent >= 0.995 else f"{percent:.2f}"


def interval(pair: Pair) -> str:
    """`+2.0 % to +4.2 %`; a dash where there is none."""
    return "–" if pair.low is None or pair.high is None else f"{change(pair.low)} to {change(pair.high)}"


def has_remarks(pairs: Sequence[Pair]) -> bool:
    return any(remark(pair) for pair in pairs)


def remark(pair: Pair) -> str:
    """Why there is no interval, in how many processes it was measured again, and why it may not be trusted."""
    reason = pair.reason if pair.low is None or _FAILED in pair.reason else ""
    again = f"measured again in {plural(pair.blocks, 'pair')} of processes" if pair.blocks else ""
    tuned = "its autotuner chose another configuration" if pair.tuned_differently and not pair.blocks else ""
    return "; ".join(filter(None, (reason, again, tuned, _doubt(pair))))


def _doubt(pair: Pair) -> str:
    if pair.trusted or pair.blocks:
        return ""
    if pair.trust_before == pair.trust_after:
        return f"not trusted: {pair.trust_before}"
    trusts = (("before", pair.trust_before), ("after", pair.trust_after))
    return "not trusted: " + "; ".join(f"{when} {trust}" for when, trust in trusts if trust not in ("", "trusted"))


# Statuses and notes ------------------------------------------------------------------------------------


def status_changes(comparison: Comparison) -> list[StatusChange]:
    return sorted(comparison.changes, key=lambda entry: _STATUS_ORDER.index(entry.verdict))


def variation_sentence(comparison: Comparison) -> str:
    """Which variation from run to run the verdicts rest on."""
    used = [pair.variation for pair in comparison.pairs if pair.variation is not None]
    if not used:
        return ""
    sentences = []
    measured = [variation.relative for variation in used if variation.source == "measured"]
    if measured:
        origin = "; ".join(
            f"{plural(entry['runs'], 'run')} on {entry['measured_at'][:10]}" for entry in comparison.measured
        )
        sentences.append(
            f"Times vary by {_range(measured)} from run to run on this machine (klab doctor --aa, {origin})."
        )
    published = [variation.relative for variation in used if variation.source == "published"]
    if published:
        sentences.append(
            f"A variation of {_range(published)} from run to run is assumed, half as much again as was measured on "
            "another machine with this GPU: klab doctor --aa measures this one."
        )
    seen = [variation.relative for variation in used if variation.source == "runs"]
    if seen:
        sentences.append(f"The runs of a side vary by {_range(seen)}.")
    assumed = [pair for pair in comparison.pairs if pair.variation is not None and pair.variation.source == "assumed"]
    if assumed:
        which = "" if len(assumed) == len(used) else f" of {plural(len(assumed), 'time')}"
        on_cpu = any(pair.key.result.case["device"] == "cpu" for pair in assumed)
        sentences.append(
            f"The variation from run to run{which} was not measured on this machine, so 1 % is assumed"
            f"{', which is little for a CPU' if on_cpu else ''}: klab doctor --aa measures it."
        )
    return " ".join(sentences)


def _range(values: Sequence[float]) -> str:
    low, high = (f"{100 * value:.2g}" for value in (min(values), max(values)))
    return f"{low} %" if low == high else f"{low} to {high} %"


def notes(comparison: Comparison) -> list[str]:
    """Everything that should be known besides the verdicts."""
    return [*warnings(comparison), *filter(None, [variation_sentence(comparison)])]


def warnings(comparison: Comparison) -> list[str]:
    """Warnings, what only one side has, and how something was measured again: with names from records."""
    lines = [f"{warning[0].upper()}{warning[1:]}." for warning in comparison.warnings]
    for keys, text in (
        (comparison.only_after, "new"),
        (comparison.only_before, "missing after"),
        (comparison.untimed, "timed before and not after"),
    ):
        if keys:
            lines.append(f"{plural(len(keys), 'result')} {text}: {_names(keys)}.")
    return [*lines, *_rerun_sentences(comparison)]


def _rerun_sentences(comparison: Comparison) -> list[str]:
    rerun = comparison.rerun
    if rerun is None:
        return []
    if not rerun.blocks:
        return ["Nothing was measured again: it was ended before the first pair of processes was complete."]
    interrupted = ", then interrupted" if rerun.interrupted else ""
    lines = [
        f"{plural(rerun.pairs, 'time')} measured again in up to {plural(rerun.blocks, 'pair')} of processes in random "
        f"order (seed {rerun.seed}){interrupted}: {'; '.join(rerun.before)} against {'; '.join(rerun.after)}."
    ]
    if set(rerun.devices) - set(comparison.after.devices):
        elsewhere = f"{' and '.join(rerun.devices)}, and the runs were on {' and '.join(comparison.after.devices)}"
        lines.append(f"They were measured again on another machine: {elsewhere}.")
    return lines


def _names(keys: Sequence[ResultKey], most: int = 4) -> str:
    listed = ", ".join(name(key) for key in keys[:most])
    return f"{listed}, …" if len(keys) > most else listed


def advice(comparison: Comparison) -> str:
    """What to do about times that are not resolved."""
    if not comparison.with_verdict("not resolved"):
        return ""
    again = "" if comparison.rerun else "--rerun measures them again, both versions in turn. "
    return (
        f"{again}More runs of each side resolve smaller differences: klab compare AFTER1 AFTER2 --against BEFORE1 "
        "BEFORE2. --precision 2% calls times that differ by less than 2 % the same."
    )
