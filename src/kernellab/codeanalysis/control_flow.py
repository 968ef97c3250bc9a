"""Basic blocks of a kernel, and its loops: natural loops of the control-flow graph, in PTX or in SASS."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from kernellab.codeanalysis.trip_counts import turns
from kernellab.machinecode.instruction_classes import classify
from kernellab.machinecode.instructions import Directive, Instruction, Label, Line, Operand

# Classes a loop that only waits for another thread or for a copy is made of.
_WAITING = {"synchronisation", "control", "movement", "integer"}
_ENDS = {"ret", "exit", "RET", "EXIT", "trap", "KILL"}
_JUMPS = {"bra", "BRA", "JMP"}
_INDIRECT = {"brx", "BRX", "JMX", "BRXU", "JMXU"}
_CALLS = {"CALL"}
_MOST_LOOPS = 500


@dataclass
class Block:
    """Instructions that run one after the other, entered at the first and left after the last."""

    label: str
    instructions: list[Instruction] = field(default_factory=list)
    leads_to: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class Loop:
    """`depth` is 1 for a loop in no other. What is counted includes the loops inside."""

    label: str
    first_line: int
    last_line: int
    depth: int
    blocks: tuple[int, ...]
    instructions: dict[str, int]
    sources: tuple[str, ...]  # the author's lines, most frequent first
    waits: bool  # only waits: for a barrier, a copy, a lock
    turns: int | None = None  # None where the code does not tell

    @property
    def size(self) -> int:
        return sum(self.instructions.values())


def hottest(loops: list[Loop]) -> Loop | None:
    """The loop most time is likely spent in: the deepest that does work, the largest among equals."""
    working = [loop for loop in loops if not loop.waits]
    return max(working, key=lambda loop: (loop.depth, loop.size), default=None)


def find_loops(body: list[Line]) -> list[Loop]:
    """Every natural loop, outer before inner; the first few hundred of damaged code that has thousands."""
    blocks = build_blocks(body)
    order = _reachable(blocks)
    before: list[list[int]] = [[] for _ in blocks]
    for i in order:
        for j in blocks[i].leads_to:
            before[j].append(i)
    dominates = _Dominance(order, before)
    ends: dict[int, list[int]] = {}
    for i in order:
        for header in blocks[i].leads_to:
            if dominates(header, i):
                ends.setdefault(header, []).append(i)
    members = {header: _natural(header, ends[header], before) for header in list(ends)[:_MOST_LOOPS]}
    found = []
    for header, inside in members.items():
        depth = sum(header in other for other in members.values())
        loop = _loop(blocks, header, inside, depth)
        found.append(replace(loop, turns=_turns(body, blocks, header, inside, ends[header])))
    return sorted(found, key=lambda loop: (loop.first_line, loop.depth))


def executed(code: Mapping[str, int], loops: Sequence[Loop], around: Loop | None = None) -> dict[str, int]:
    """Instructions by class as a thread runs them: loops whose turns are known so often, others once.

    `code` is what is counted, of the whole kernel or of one turn of the loop `around`.
    """
    depth = around.depth + 1 if around is not None else 1
    inner = [one for one in loops if one.depth == depth and (around is None or set(one.blocks) < set(around.blocks))]
    found = Counter(code)
    for loop in inner:
        found.subtract(loop.instructions)
        once = executed(loop.instructions, loops, loop)
        found.update({name: number * (loop.turns or 1) for name, number in once.items()})
    return {name: found[name] for name in code}


def _turns(
    body: Sequence[Line], blocks: Sequence[Block], header: int, inside: set[int], ends: Sequence[int]
) -> int | None:
    """Turns of a loop that is left at its end alone."""
    leaving = {i for i in inside if any(to not in inside for to in blocks[i].leads_to)}
    code = [line for i in sorted(inside) for line in blocks[i].instructions]
    odd = any(line.base in _ENDS | _INDIRECT for line in code)
    entered = sum(header in block.leads_to for i, block in enumerate(blocks) if i not in inside)
    if odd or len(ends) != 1 or leaving != set(ends) or entered != 1:
        return None
    if header != min(inside) or blocks[ends[0]].leads_to[0] != header:
        return None
    first = next(at for at, line in enumerate(body) if line is code[0])
    return turns(body[:first], body, code, blocks[ends[0]].instructions)


def build_blocks(body: list[Line]) -> list[Block]:
    blocks, names, targets = _cut(body)
    by_address = {b.instructions[0].address: i for i, b in enumerate(blocks) if b.instructions}
    for i, block in enumerate(blocks):
        last = block.instructions[-1] if block.instructions else None
        following = [i + 1] if i + 1 < len(blocks) else []
        if last is None:
            block.leads_to = following
            continue
        aims = _aims(last, names, by_address, targets)
        goes_on = following if _may_go_on(last) else []
        block.leads_to = list(dict.fromkeys([*aims, *goes_on]))
    return blocks


def _cut(body: list[Line]) -> tuple[list[Block], dict[tuple[tuple[int, ...], str], int], dict[str, list[str]]]:
    """Blocks, where each label leads by the scope it stands in, and the tables of indirect branches."""
    numeric = {o.value for line in body if isinstance(line, Instruction) and line.base in _JUMPS for o in line.operands}
    blocks = [Block("")]
    names: dict[tuple[tuple[int, ...], str], int] = {}
    targets: dict[str, list[str]] = {}
    last_label = ""
    for line in body:
        if isinstance(line, Label):
            if blocks[-1].instructions:
                blocks.append(Block(line.name))
            blocks[-1].label = blocks[-1].label or line.name
            names.setdefault((line.scope, line.name), len(blocks) - 1)
            last_label = line.name
        elif isinstance(line, Directive):
            if line.name == ".branchtargets":
                targets[last_label] = list(line.words)
        else:
            if blocks[-1].instructions and line.address is not None and line.address in numeric:
                blocks.append(Block(f"{line.address:#06x}"))
            blocks[-1].instructions.append(line)
            if line.base in _JUMPS | _INDIRECT | _ENDS | _CALLS:
                blocks.append(Block(""))
    return blocks, names, targets


def _aims(
    last: Instruction,
    names: dict[tuple[tuple[int, ...], str], int],
    by_address: dict[int | None, int],
    targets: dict[str, list[str]],
) -> list[int]:
    if last.base in _INDIRECT:
        table = [name for operand in last.operands for name in targets.get(operand.name, ())]
        return [to for name in table if (to := _label(names, last.scope, name)) is not None]
    if last.base not in _JUMPS | _CALLS or not last.operands:
        return []
    aim: Operand = last.operands[-1]
    to = _label(names, last.scope, aim.name)
    if to is None and isinstance(aim.value, int):
        to = by_address.get(aim.value)
    return [] if to is None else [to]


def _label(names: dict[tuple[tuple[int, ...], str], int], scope: tuple[int, ...], name: str) -> int | None:
    """The label of this name in the nearest block around."""
    for depth in range(len(scope), -1, -1):
        found = names.get((scope[:depth], name))
        if found is not None:
            return found
    return None


def _may_go_on(last: Instruction) -> bool:
    if last.base in _CALLS:
        return True
    # SASS also writes a condition as an operand: BRA.U UP0, target; BRA P1, target.
    conditional = last.guard is not None or (last.base in _JUMPS and len(last.operands) > 1)
    return conditional or last.base not in _JUMPS | _INDIRECT | _ENDS


def _reachable(blocks: list[Block]) -> list[int]:
    """Blocks reached from the first, in reverse postorder."""
    seen, done = {0}, []
    stack = [(0, iter(blocks[0].leads_to))]
    while stack:
        at, rest = stack[-1]
        to = next(rest, None)
        if to is None:
            done.append(at)
            stack.pop()
        elif to not in seen:
            seen.add(to)
            stack.append((to, iter(blocks[to].leads_to)))
    return done[::-1]


class _Dominance:
    """Whether all ways to one block lead through another (dominators after Cooper, Harvey and Kennedy, 2001)."""

    def __init__(self, order: list[int], before: list[list[int]]) -> None:
        rank = {block: i for i, block in enumerate(order)}
        above = {0: 0}
        changed = True
        while changed:
            changed = False
            for block in order[1:]:
                known = [b for b in before[block] if b in above]
                new = known[0]
                for other in known[1:]:
                    new = _meet(other, new, above, rank)
                if above.get(block) != new:
                    above[block] = new
                    changed = True
        # A block's place among those below it, as an interval: one comparison answers instead of a walk upwards.
        below: dict[int, list[int]] = {block: [] for block in order}
        for block in order[1:]:
            below[above[block]].append(block)
        self._first: dict[int, int] = {}
        self._last: dict[int, int] = {}
        stack = [(0, iter(below[0]))]
        self._first[0] = 0
        while stack:
            block, rest = stack[-1]
            child = next(rest, None)
            if child is None:
                self._last[block] = len(self._first)
                stack.pop()
            else:
                self._first[child] = len(self._first)
                stack.append((child, iter(below[child])))

    def __call__(self, header: int, block: int) -> bool:
        return self._first[header] <= self._first[block] < self._last[header]


def _meet(a: int, b: int, above: dict[int, int], rank: dict[int, int]) -> int:
    while a != b:
        while rank[a] > rank[b]:
            a = above[a]
        while rank[b] > rank[a]:
            b = above[b]
    return a


def _natural(header: int, ends: list[int], before: list[list[int]]) -> set[int]:
    """Every block from which one of the loop's ends is reached without passing its header."""
    inside, todo = {header, *ends}, [end for end in ends if end != header]
    while todo:
        for block in before[todo.pop()]:
            if block not in inside:
                inside.add(block)
                todo.append(block)
    return inside


def _loop(blocks: list[Block], header: int, inside: set[int], depth: int) -> Loop:
    code = [line for i in sorted(inside) for line in blocks[i].instructions]
    counts = Counter(classify(line).name for line in code)
    sources = Counter(line.source.name for line in code if line.source is not None)
    lines = [line.line for line in code] or [0]
    return Loop(
        blocks[header].label,
        min(lines),
        max(lines),
        depth,
        tuple(sorted(inside)),
        dict(counts.most_common()),
        tuple(name for name, _ in sources.most_common(3)),
        set(counts) <= _WAITING and "synchronisation" in counts,
    )
