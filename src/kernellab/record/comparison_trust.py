"""What the verdicts of a pass say about the trust of its comparisons, apart from that of its times."""

from __future__ import annotations

from collections.abc import Sequence

from kernellab.record.derived import PassVerdict, ReasonJson, Speedup

HOLD = "comparisons hold: in every round both sides were affected alike"
_STATES = ("throttled", "clock-moved", "unsteady")  # reasons against times that comparisons may withstand


def comparisons(verdict: PassVerdict) -> list[Speedup]:
    """The comparisons of an implementation, with each other one once."""
    speedups = (verdict["speedup"]["baseline"], verdict["speedup"]["fastest_other"])
    return list({speedup["over"]: speedup for speedup in speedups if speedup}.values())


def own_doubts(verdict: PassVerdict, speedup: Speedup) -> list[ReasonJson]:
    """The reasons against a comparison that are not reasons against the time too."""
    of_time = {reason["name"] for reason in verdict["trust"]["reasons"]} if verdict["trust"] else set()
    return [reason for reason in speedup["trust"]["reasons"] if reason["name"] not in of_time]


def comparisons_hold(verdicts: Sequence[PassVerdict]) -> bool:
    """Whether the state of the machine makes times uncertain, and none of the comparisons."""
    moved = any(reason["name"] in _STATES for v in verdicts if v["trust"] for reason in v["trust"]["reasons"])
    trusts = [speedup["trust"]["verdict"] for verdict in verdicts for speedup in comparisons(verdict)]
    return moved and bool(trusts) and all(trust == "trusted" for trust in trusts)
