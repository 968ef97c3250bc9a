"""Traces of several ranks side by side: which rank waits for which, and compute by layer."""

from __future__ import annotations

from collections.abc import Sequence

from kernellab.analysis.ranks import LayerDocument, RanksDocument
from kernellab.reporting.text import numbers as words
from kernellab.reporting.text.layout import Layout


def lines(document: RanksDocument) -> list[str]:
    ranks, layout = document["ranks"], Layout()
    body = [
        [str(rank["rank"]), str(rank["all_reduces"]), *map(words.duration, (rank["all_reduce_us"], rank["wait_us"]))]
        for rank in ranks
    ]
    text = [*layout.sentences([_who_waits(document)]), ""]
    text += layout.table(["rank", "all-reduces", "time in them", "of it waiting"], body, drop_first=[1])
    layers = [layer["layer"] for layer in ranks[0]["layers"]]
    if layers:
        head = ["layer", *(f"rank {rank['rank']}" for rank in ranks)]
        cells = [[_layer(rank["layers"], at) for rank in ranks] for at in range(len(layers))]
        body = [[name, *row] for name, row in zip(layers, cells, strict=True)]
        text += ["", *layout.sentences(["compute per layer, forward + backward"]), *layout.table(head, body)]
    return [*text, ""]


def _who_waits(document: RanksDocument) -> str:
    ranks = document["ranks"]
    if not document["matched"]:
        return "No communication between the ranks was recorded."
    waiting = max(ranks, key=lambda rank: rank["wait_us"])
    late = max(ranks, key=lambda rank: rank["came_last"])
    sentence = (
        f"Rank {waiting['rank']} waited longest for the others, {words.duration(waiting['wait_us'])} of its "
        f"{words.duration(waiting['collective_us'])} in {words.count(waiting['collectives'], 'collective')}; "
        f"rank {late['rank']} arrived last at {late['came_last']} of {document['matched']}."
    )
    if document["uneven"]:
        sentence += " The ranks recorded different numbers of collectives: those beyond the smallest are left out."
    return sentence


def _layer(layers: Sequence[LayerDocument], at: int) -> str:
    if at >= len(layers):
        return ""
    return f"{words.duration(layers[at]['forward_us'])} + {words.duration(layers[at]['backward_us'])}"
