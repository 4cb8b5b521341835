"""From emitted micro-ops to a function's final rows: unreachable code and needless jumps go.

Memory accesses and everything else that the machine can observe stay as they are and in order.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from slubviz.hw.isa import F_A, F_AUX, F_B, F_C, F_IMM, F_OP, F_SIZE, FRAME_WORDS, WORDS, Op
from slubviz.model.lang.builder import ARGUMENT_BASE, Builder, Instruction, Label, Site
from slubviz.model.lang.encoding import BRANCHES, INVERSE, REGISTER_FIELDS, TERMINATORS
from slubviz.model.lang.program import Variable

Items = list[Instruction | Label]


@dataclass(frozen=True)
class FunctionCode:
    """A function's micro-ops, with targets and variables counted from its first one."""

    instructions: list[Instruction]
    variables: tuple[Variable, ...]
    locals_count: int
    window_words: int


def simplify(items: Items) -> Items:
    """Remove what never runs and jumps that lead nowhere."""
    # jumps to RET turn into RET last: a jump that only skips dead code goes away altogether
    for return_early in (False, True):
        before = -1
        while len(items) != before:
            before = len(items)
            _thread_jumps(items, return_early)
            items = _without_needless_jumps(_without_unreachable(items))
    return items


def _following(items: Items) -> dict[Label, Instruction]:
    """The instruction at each label."""
    found: dict[Label, Instruction] = {}
    following: Instruction | None = None
    for item in reversed(items):
        if isinstance(item, Instruction):
            following = item
        elif following is not None:
            found[item] = following
    return found


def _thread_jumps(items: Items, return_early: bool) -> None:
    """Let a jump to a jump go to the end of the chain, and a jump to RET return."""
    at = _following(items)
    for number, item in enumerate(items):
        if not isinstance(item, Instruction) or item.target is None:
            continue
        seen = {item.target}
        while True:
            landing = at[item.target]
            if landing.op is not Op.JMP or landing.target is None or landing.target in seen:
                break
            item.target = landing.target
            seen.add(item.target)
        if return_early and item.op is Op.JMP and landing.op is Op.RET:
            items[number] = Instruction(
                Op.RET, 0, landing.b, 0, 0, 0, 0, None,
                landing.file, landing.position, landing.function, landing.site,
            )  # fmt: skip


def _without_unreachable(items: Items) -> Items:
    index = {item: number for number, item in enumerate(items) if isinstance(item, Label)}
    reached = [False] * len(items)
    pending = [0]
    while pending:
        number = pending.pop()
        while number < len(items) and not reached[number]:
            reached[number] = True
            item = items[number]
            if isinstance(item, Instruction):
                if item.target is not None:
                    pending.append(index[item.target])
                if item.op in TERMINATORS:
                    break
            number += 1
    return [item for item, keep in zip(items, reached, strict=True) if keep or isinstance(item, Label)]


def _without_needless_jumps(items: Items) -> Items:
    """Drop jumps to the next micro-op; turn a branch around a jump into the opposite branch."""
    kept: Items = []
    targets = {item.target for item in items if isinstance(item, Instruction)}
    for number, item in enumerate(items):
        if isinstance(item, Instruction) and item.target is not None:
            labels, behind = _labels_behind(items, number)
            if item.target in labels:
                continue
            if item.op in BRANCHES and behind < len(items):
                jump = items[behind]
                assert isinstance(jump, Instruction)
                beyond, _ = _labels_behind(items, behind)
                if jump.op is Op.JMP and targets.isdisjoint(labels) and item.target in beyond:
                    _invert(item, jump.target)
                    jump.target = beyond[0]  # now leads to the next micro-op: dropped
        kept.append(item)
    return kept


def _labels_behind(items: Items, number: int) -> tuple[list[Label], int]:
    """The labels right behind item ``number``, and the index of the instruction after them."""
    labels: list[Label] = []
    number += 1
    while number < len(items):
        item = items[number]
        if isinstance(item, Instruction):
            break
        labels.append(item)
        number += 1
    return labels, number


def _invert(item: Instruction, target: Label | None) -> None:
    item.op, exchange = INVERSE[item.op]
    if exchange:
        item.b, item.c = item.c, item.b
    item.target = target


def link_function(b: Builder) -> FunctionCode:
    """Settle registers, targets and variable ranges of a compiled function."""
    items = simplify(b.items)
    instructions: list[Instruction] = []
    for item in items:
        if isinstance(item, Label):
            item.pc = len(instructions)
        else:
            instructions.append(item)
    if not instructions or instructions[-1].op is not Op.RET:
        # e.g. an endless loop: a function still ends in RET
        last = b.items[-1] if isinstance(b.items[-1], Instruction) else None
        model = instructions[-1] if instructions else last
        assert model is not None
        instructions.append(
            Instruction(
                Op.RET, 0, -1, 0, 0, 0, 0, None, model.file, model.position, b.decl.index, -1
            )
        )  # fmt: skip
    arguments = [item.aux for item in instructions if item.op is Op.CALL]
    window = b.registers_used + (FRAME_WORDS + max(arguments) if arguments else 0)
    for item in instructions:
        _settle_registers(item, b.registers_used)
        if item.op is Op.CALL:
            item.imm = b.registers_used + FRAME_WORDS
        elif item.target is not None:
            item.aux = item.target.pc
    return FunctionCode(instructions, _variables(b), b.registers_used, window)


def _settle_registers(item: Instruction, locals_count: int) -> None:
    """Give outgoing arguments their place behind the callee's frame header."""
    moved = locals_count + FRAME_WORDS - ARGUMENT_BASE
    fields = REGISTER_FIELDS.get(item.op, "")
    if "a" in fields and item.a >= ARGUMENT_BASE:
        item.a += moved
    if "b" in fields and item.b >= ARGUMENT_BASE:
        item.b += moved
    if "c" in fields and item.c >= ARGUMENT_BASE:
        item.c += moved
    if "x" in fields and item.aux >= ARGUMENT_BASE:
        item.aux += moved


def _variables(b: Builder) -> tuple[Variable, ...]:
    found = []
    for entry in b.variables:
        local = entry.local
        reg = -1 if local.value.reg is None else local.value.reg
        first, end = local.start.pc, entry.end.pc
        if first < end and reg < ARGUMENT_BASE:
            found.append(
                Variable(local.name, reg, local.type.name, first, end, entry.site, local.value.number)
            )
    return tuple(sorted(found, key=lambda v: (v.site, v.first_pc, v.register)))


def encode(instructions: list[Instruction]) -> NDArray[np.int32]:
    """The rows of ``slubviz.hw.isa``, flat."""
    rows = np.zeros((len(instructions), WORDS), dtype=np.int32)
    for row, item in zip(rows, instructions, strict=True):
        row[F_OP], row[F_A], row[F_B], row[F_C] = int(item.op), item.a, item.b, item.c
        row[F_IMM], row[F_AUX], row[F_SIZE] = item.imm, item.aux, item.size
    return rows.reshape(-1)


def used_sites(instructions: list[Instruction], sites: list[Site]) -> dict[int, int]:
    """Old number -> new number of the inline sites that some micro-op belongs to, or a used one's parent."""
    used: set[int] = set()
    for item in instructions:
        site = item.site
        while site >= 0 and site not in used:
            used.add(site)
            site = sites[site].parent
    return {old: new for new, old in enumerate(sorted(used))}
