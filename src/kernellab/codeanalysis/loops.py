"""The loops of a kernel, in PTX or SASS: natural loops of its control-flow graph, with trip counts if known."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kernellab.codeanalysis.control_flow import (
    EXITS,
    INDIRECT_JUMPS,
    Block,
    Dominance,
    build_blocks,
    reachable_blocks,
)
from kernellab.codeanalysis.trip_counts import trip_count
from kernellab.machinecode.instruction_classes import classify
from kernellab.machinecode.instructions import Instruction, Line

# A loop of these classes only waits for another thread or for a copy.
_WAITING = {"synchronisation", "control", "movement", "integer"}
_LOADS = ("global_load", "async_copy")
_MAX_LOOPS = 500


@dataclass(frozen=True)
class Loop:
    """`depth` is 1 for a loop that is not inside another. Counts include the loops inside."""

    label: str
    first_line: int
    last_line: int
    depth: int
    blocks: tuple[int, ...]
    instructions: dict[str, int]
    sources: tuple[str, ...]  # the author's lines, most frequent first
    statement: str  # the author's line of the loop statement, that of the branch at its end; empty if not known
    load_bytes: float  # width of its global loads, on average; 0 if it has none
    waits: bool  # it only waits for a barrier, a copy or a lock
    turns: int | None  # trip count; None if the code does not contain it

    @property
    def size(self) -> int:
        return sum(self.instructions.values())


def find_loops(body: list[Line]) -> list[Loop]:
    """Every natural loop, outer before inner. Damaged code may have thousands: only the first few hundred are found."""
    blocks = build_blocks(body)
    order = reachable_blocks(blocks)
    predecessors: list[list[int]] = [[] for _ in blocks]
    for i in order:
        for j in blocks[i].leads_to:
            predecessors[j].append(i)
    dominance = Dominance(order, predecessors)
    ends: dict[int, list[int]] = {}
    for i in order:
        for header in blocks[i].leads_to:
            if dominance.dominates(header, i):
                ends.setdefault(header, []).append(i)
    members = {header: _natural_loop(header, ends[header], predecessors) for header in list(ends)[:_MAX_LOOPS]}
    loops = []
    for header, inside in members.items():
        depth = sum(header in other for other in members.values())
        turns = _count_turns(body, blocks, header, inside, ends[header])
        closing = blocks[max(ends[header])].instructions[-1]
        loops.append(_build_loop(blocks, header, inside, depth, turns, closing))
    return sorted(loops, key=lambda loop: (loop.first_line, loop.depth))


def find_hottest(loops: list[Loop]) -> Loop | None:
    """The loop where most time is probably spent: the deepest that does work; of several, the largest."""
    working = [loop for loop in loops if not loop.waits]
    return max(working, key=lambda loop: (loop.depth, loop.size), default=None)


def count_executed(instructions: Mapping[str, int], loops: Sequence[Loop], outer: Loop | None = None) -> dict[str, int]:
    """Instructions by class that a thread executes. A loop without a known trip count counts once.

    `instructions` are the counts of the whole kernel, or of one iteration of the loop `outer`.
    """
    depth = outer.depth + 1 if outer is not None else 1
    inner = [loop for loop in loops if loop.depth == depth and (outer is None or set(loop.blocks) < set(outer.blocks))]
    counts = Counter(instructions)
    for loop in inner:
        counts.subtract(loop.instructions)
        iteration = count_executed(loop.instructions, loops, loop)
        counts.update({name: number * (loop.turns or 1) for name, number in iteration.items()})
    return {name: counts[name] for name in instructions}


def _count_turns(
    body: Sequence[Line], blocks: Sequence[Block], header: int, inside: set[int], ends: Sequence[int]
) -> int | None:
    """The trip count of a loop whose only exit is at its end."""
    exits = {i for i in inside if any(successor not in inside for successor in blocks[i].leads_to)}
    code = [line for i in sorted(inside) for line in blocks[i].instructions]
    unusual = any(line.base in EXITS | INDIRECT_JUMPS for line in code)
    entries = sum(header in block.leads_to for i, block in enumerate(blocks) if i not in inside)
    if unusual or len(ends) != 1 or exits != set(ends) or entries != 1:
        return None
    if header != min(inside) or blocks[ends[0]].leads_to[0] != header:
        return None
    first = next(i for i, line in enumerate(body) if line is code[0])
    return trip_count(body[:first], body, code, blocks[ends[0]].instructions)


def _natural_loop(header: int, ends: list[int], predecessors: list[list[int]]) -> set[int]:
    """Every block from which an end of the loop can be reached without passing its header."""
    inside, todo = {header, *ends}, [end for end in ends if end != header]
    while todo:
        for block in predecessors[todo.pop()]:
            if block not in inside:
                inside.add(block)
                todo.append(block)
    return inside


def _build_loop(
    blocks: list[Block], header: int, inside: set[int], depth: int, turns: int | None, closing: Instruction
) -> Loop:
    code = [line for i in sorted(inside) for line in blocks[i].instructions]
    kinds = [classify(line) for line in code]
    counts = Counter(kind.name for kind in kinds)
    widths = [kind.bytes for kind in kinds if kind.name in _LOADS and kind.bytes]
    sources = Counter(line.source.name for line in code if line.source is not None)
    lines = [line.line for line in code] or [0]
    return Loop(
        label=blocks[header].label,
        first_line=min(lines),
        last_line=max(lines),
        depth=depth,
        blocks=tuple(sorted(inside)),
        instructions=dict(counts.most_common()),
        sources=tuple(name for name, _ in sources.most_common(3)),
        statement=closing.source.name if closing.source else "",
        load_bytes=sum(widths) / len(widths) if widths else 0.0,
        waits=set(counts) <= _WAITING and "synchronisation" in counts,
        turns=turns,
    )
