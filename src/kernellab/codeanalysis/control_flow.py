"""The control-flow graph of a kernel, in PTX or SASS: basic blocks, their successors, and their dominators."""

from __future__ import annotations

from dataclasses import dataclass, field

from kernellab.machinecode.instructions import Directive, Instruction, Label, Line, Operand

EXITS = {"ret", "exit", "RET", "EXIT", "trap", "KILL"}
INDIRECT_JUMPS = {"brx", "BRX", "JMX", "BRXU", "JMXU"}
_JUMPS = {"bra", "BRA", "JMP"}
_CALLS = {"CALL"}

_Scope = tuple[int, ...]


@dataclass
class Block:
    """Instructions that execute one after another, entered at the first and left after the last."""

    label: str
    instructions: list[Instruction] = field(default_factory=list)
    leads_to: list[int] = field(default_factory=list)


@dataclass
class _SplitBody:
    """The blocks of a body; the block of each label, by scope and name; the labels of each indirect branch's table."""

    blocks: list[Block] = field(default_factory=lambda: [Block("")])
    labels: dict[tuple[_Scope, str], int] = field(default_factory=dict)
    branch_tables: dict[str, list[str]] = field(default_factory=dict)

    def find_label(self, scope: _Scope, name: str) -> int | None:
        """The block of the label with this name in the innermost scope that has one."""
        for depth in range(len(scope), -1, -1):
            block = self.labels.get((scope[:depth], name))
            if block is not None:
                return block
        return None


def build_blocks(body: list[Line]) -> list[Block]:
    split = _split_body(body)
    blocks = split.blocks
    by_address = {b.instructions[0].address: i for i, b in enumerate(blocks) if b.instructions}
    for i, block in enumerate(blocks):
        last = block.instructions[-1] if block.instructions else None
        following = [i + 1] if i + 1 < len(blocks) else []
        if last is None:
            block.leads_to = following
            continue
        targets = _jump_targets(last, split, by_address)
        fall_through = following if _falls_through(last) else []
        block.leads_to = list(dict.fromkeys([*targets, *fall_through]))
    return blocks


def _split_body(body: list[Line]) -> _SplitBody:
    jumps = (line for line in body if isinstance(line, Instruction) and line.base in _JUMPS)
    target_addresses = {operand.value for line in jumps for operand in line.operands}
    split = _SplitBody()
    blocks = split.blocks
    last_label = ""
    for line in body:
        if isinstance(line, Label):
            if blocks[-1].instructions:
                blocks.append(Block(line.name))
            blocks[-1].label = blocks[-1].label or line.name
            split.labels.setdefault((line.scope, line.name), len(blocks) - 1)
            last_label = line.name
        elif isinstance(line, Directive):
            if line.name == ".branchtargets":
                split.branch_tables[last_label] = list(line.words)
        else:
            if blocks[-1].instructions and line.address is not None and line.address in target_addresses:
                blocks.append(Block(f"{line.address:#06x}"))
            blocks[-1].instructions.append(line)
            if line.base in _JUMPS | INDIRECT_JUMPS | EXITS | _CALLS:
                blocks.append(Block(""))
    return split


def _jump_targets(last: Instruction, split: _SplitBody, by_address: dict[int | None, int]) -> list[int]:
    """The blocks that the last instruction of a block may jump to."""
    if last.base in INDIRECT_JUMPS:
        table = [name for operand in last.operands for name in split.branch_tables.get(operand.name, ())]
        return [block for name in table if (block := split.find_label(last.scope, name)) is not None]
    if last.base not in _JUMPS | _CALLS or not last.operands:
        return []
    target: Operand = last.operands[-1]
    block = split.find_label(last.scope, target.name)
    if block is None and isinstance(target.value, int):
        block = by_address.get(target.value)
    return [] if block is None else [block]


def _falls_through(last: Instruction) -> bool:
    """Whether execution may continue with the next block."""
    if last.base in _CALLS:
        return True
    # SASS also writes a condition as an operand: BRA.U UP0, target; BRA P1, target.
    conditional = last.guard is not None or (last.base in _JUMPS and len(last.operands) > 1)
    return conditional or last.base not in _JUMPS | INDIRECT_JUMPS | EXITS


def reachable_blocks(blocks: list[Block]) -> list[int]:
    """Blocks that can be reached from the first, in reverse postorder."""
    seen, postorder = {0}, []
    stack = [(0, iter(blocks[0].leads_to))]
    while stack:
        block, successors = stack[-1]
        successor = next(successors, None)
        if successor is None:
            postorder.append(block)
            stack.pop()
        elif successor not in seen:
            seen.add(successor)
            stack.append((successor, iter(blocks[successor].leads_to)))
    return postorder[::-1]


class Dominance:
    """Whether all paths to a block pass through another (dominators after Cooper, Harvey and Kennedy, 2001)."""

    def __init__(self, order: list[int], predecessors: list[list[int]]) -> None:
        """`order` is the reverse postorder of the reachable blocks."""
        parents = _immediate_dominators(order, predecessors)
        children: dict[int, list[int]] = {block: [] for block in order}
        for block in order[1:]:
            children[parents[block]].append(block)
        # Numbered in preorder, each subtree is an interval, so that a query takes two comparisons.
        self._first: dict[int, int] = {0: 0}
        self._end: dict[int, int] = {}
        stack = [(0, iter(children[0]))]
        while stack:
            block, rest = stack[-1]
            child = next(rest, None)
            if child is None:
                self._end[block] = len(self._first)
                stack.pop()
            else:
                self._first[child] = len(self._first)
                stack.append((child, iter(children[child])))

    def dominates(self, header: int, block: int) -> bool:
        return self._first[header] <= self._first[block] < self._end[header]


def _immediate_dominators(order: list[int], predecessors: list[list[int]]) -> dict[int, int]:
    rank = {block: i for i, block in enumerate(order)}
    parents = {0: 0}
    changed = True
    while changed:
        changed = False
        for block in order[1:]:
            visited = [b for b in predecessors[block] if b in parents]
            parent = visited[0]
            for other in visited[1:]:
                parent = _common_dominator(other, parent, parents, rank)
            if parents.get(block) != parent:
                parents[block] = parent
                changed = True
    return parents


def _common_dominator(a: int, b: int, parents: dict[int, int], rank: dict[int, int]) -> int:
    while a != b:
        while rank[a] > rank[b]:
            a = parents[a]
        while rank[b] > rank[a]:
            b = parents[b]
    return a
