"""Where the cards of a call stack go; arithmetic only.

The outermost frame is at the top, as in a program text the caller is above the called.  An interrupt is a
box inside the box that it came into, from its header down to the innermost frame: what is deeper is drawn
on top.

Cards have as much detail as there is room for, given from the innermost outwards.  Where there is not even
room for a line each, outer cards are folded into rows of names; then headers get shorter; only then it is
scrolled.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum

GAP = 4
#: Every interrupt level is so much narrower on the left and on the right.
_INDENT, _RIGHT = 14, 4
#: At least this share of the width is left for the cards of the deepest level.
_LEAST_SHARE = 0.6
#: From a card's edge to its variables.
_INSET = 8
#: Rows of variables at most: of a key card, of another card, of any where there is little room.
_ALL_ROWS, _MOST_ROWS, _FEW_ROWS = 1000, 4, 2


class Amount(IntEnum):
    """How much of a frame is shown."""

    FOLDED = 0  #: its name in a row of names
    NAME = 1  #: a line of its own
    CODE = 2  #: and the line of source
    ALL = 3  #: and the variables


@dataclass(frozen=True)
class Measures:
    """Sizes in logical pixels."""

    name: int  #: height of the line with the function's name, padding included
    slim: int  #: the same of an inlined function, and of a row of names
    code: int  #: height of the strip with the source line
    row: int  #: height of a row of variables
    note: int  #: height of the line with the next micro-op
    header: int  #: height of an interrupt's header
    header_slim: int  #: the same without the line that says where it came
    ghost: int  #: height of a pending interrupt
    pad: int  #: below the last line of a card that has more than its name
    column: int  #: least width of a column of variables


@dataclass(frozen=True)
class CardNeed:
    """What a card is to hold."""

    level: int
    widths: tuple[int, ...] = ()  #: of its variables, in pixels
    has_code: bool = True
    slim: bool = False
    note: bool = False
    key: bool = False  #: is not folded and shows its variables, where there is little room a few
    asked: bool = False  #: a key card that shows all of them whatever the room
    interrupted: bool = False  #: shows its code if that is possible
    header: bool = False  #: a handler's: the header of an interrupt is above it


@dataclass(frozen=True)
class Box:
    """A rectangle."""

    x: int
    y: int
    width: int
    height: int

    @property
    def bottom(self) -> int:
        """The first pixel below."""
        return self.y + self.height

    def holds(self, x: int, y: int) -> bool:
        """Whether a point is inside."""
        return self.x <= x < self.x + self.width and self.y <= y < self.bottom


@dataclass(frozen=True)
class Cell:
    """Where a variable is, from the upper left corner of the first row; ``index`` -1 counts the rest."""

    index: int
    x: int
    row: int
    width: int


@dataclass(frozen=True)
class CardBox:
    """A placed card; a folded one has the box of its row."""

    box: Box
    amount: Amount
    cells: tuple[Cell, ...] = ()
    rows: int = 0


@dataclass(frozen=True)
class FoldBox:
    """A row of names."""

    box: Box
    first: int
    last: int  #: inclusive


@dataclass(frozen=True)
class LevelBox:
    """A placed interrupt."""

    box: Box
    header: Box


@dataclass(frozen=True)
class StackLayout:
    """All of it, in the coordinates of the scrolled content."""

    cards: tuple[CardBox, ...] = ()
    levels: tuple[LevelBox, ...] = ()
    folds: tuple[FoldBox, ...] = ()
    ghosts: tuple[Box, ...] = ()  #: one of all pending interrupts where there is little room
    height: int = 0

    def card_at(self, x: int, y: int) -> int:
        """Position of the card at a point, -1 for none; of a row of names the innermost one."""
        for index in range(len(self.cards) - 1, -1, -1):
            if self.cards[index].box.holds(x, y):
                return index
        return -1


def lay_out_stack(
    needs: Sequence[CardNeed], ghosts: int, width: int, height: int, measures: Measures, *, fold: bool = True
) -> StackLayout:
    """Place all cards.

    Parameters
    ----------
    needs : sequence of CardNeed
        Outermost first.
    ghosts : int
        Number of pending interrupts.
    width, height : int
        Of the visible part, in logical pixels; what is taller is scrolled.
    fold : bool
        Whether cards may be folded.
    """
    if not needs and not ghosts:
        return StackLayout()
    indent = indent_of(needs, width)
    plan = _plan([_Frame(need, width, indent, measures) for need in needs], ghosts, height, measures, fold)
    return _placed(plan, width)


def indent_of(needs: Sequence[CardNeed], width: int) -> int:
    """How far a level is indented: less where many are nested in little room."""
    deepest = max((need.level for need in needs), default=0)
    if deepest == 0:
        return _INDENT
    room = (1 - _LEAST_SHARE) * width / deepest - _RIGHT
    return max(2, min(_INDENT, int(room)))


def cells_of(widths: Sequence[int], room: int, column: int, most_rows: int) -> tuple[Cell, ...]:
    """Put variables into a grid; a long one has as many columns as it needs.

    Parameters
    ----------
    widths : sequence of int
        Of the variables, in pixels.
    room, column : int
        Width of a row, and least width of a column.
    most_rows : int
        If there are more, the last cell counts those left out.
    """
    columns = max(1, room // column)
    step = room / columns
    cells: list[Cell] = []
    row, at = 0, 0
    for index, width in enumerate(widths):
        span = min(columns, max(1, -int(-width // step)))
        if at + span > columns:
            row, at = row + 1, 0
        cells.append(Cell(index, int(at * step), row, int(span * step)))
        at += span
    if row < most_rows:
        return tuple(cells)
    kept = [cell for cell in cells if cell.row < most_rows][:-1]
    if not kept:
        return (Cell(-1, 0, 0, room),)
    # The rest is counted where the last one that had room would have been.
    last = cells[len(kept)]
    return (*kept, Cell(-1, last.x, last.row, room - last.x))


class _Frame:
    # A card that can be measured with any amount of detail.
    def __init__(self, need: CardNeed, width: int, indent: int, measures: Measures) -> None:
        self.need, self._measures = need, measures
        self.x = GAP + need.level * indent
        self.width = max(1, width - self.x - GAP - need.level * _RIGHT)
        self._room = max(1, self.width - 2 * _INSET)

    def cells(self, few: bool) -> tuple[Cell, ...]:
        rows = _ALL_ROWS if self.need.key else _MOST_ROWS
        if few and not self.need.asked:
            rows = _FEW_ROWS
        return cells_of(self.need.widths, self._room, self._measures.column, rows)

    def height(self, amount: Amount, few: bool) -> int:
        m = self._measures
        total = m.slim if self.need.slim or amount is Amount.FOLDED else m.name
        rows = _rows(self.cells(few)) if amount is Amount.ALL else 0
        has_code = amount >= Amount.CODE and self.need.has_code
        total += m.code if has_code else 0
        total += rows * m.row + (m.note if amount is Amount.ALL and self.need.note else 0)
        return total + (m.pad if has_code or rows else 0)

    def placed(self, y: int, amount: Amount, few: bool) -> CardBox:
        cells = self.cells(few) if amount is Amount.ALL else ()
        box = Box(self.x, y, self.width, self.height(amount, few))
        return CardBox(box, amount, cells, _rows(cells))


def _rows(cells: Sequence[Cell]) -> int:
    return cells[-1].row + 1 if cells else 0


@dataclass
class _Plan:
    # What each card shows, and what is left away.
    frames: Sequence[_Frame]
    measures: Measures
    amounts: list[Amount]
    few: list[bool]  #: of each frame: only few rows of variables
    ghosts: int
    headers: dict[int, int]  #: height of each header, by the position of its card

    def runs(self) -> Iterator[tuple[int, int]]:
        # Cards one by one, folded ones of a level together; first and last.
        first = 0
        while first < len(self.frames):
            last = first
            while self.amounts[first] is Amount.FOLDED and self._joins(last):
                last += 1
            yield first, last
            first = last + 1

    def _joins(self, index: int) -> bool:
        following = index + 1
        return (
            following < len(self.frames)
            and self.amounts[following] is Amount.FOLDED
            and not self.frames[following].need.header
        )

    def height(self) -> int:
        # The same sum as that of ``_placed``.
        total = GAP + sum(height + 2 * GAP for height in self.headers.values())
        total += self.ghosts * (self.measures.ghost + GAP)
        for first, _ in self.runs():
            total += self.frames[first].height(self.amounts[first], self.few[first]) + GAP
        return total


def _plan(frames: Sequence[_Frame], ghosts: int, height: int, measures: Measures, fold: bool) -> _Plan:
    # The first of these that fits: all cards; outer ones folded; with short headers; with few variables
    # and interrupted ones folded too.  If none does, the last.
    plain = [i for i, frame in enumerate(frames) if not frame.need.key and not frame.need.interrupted]
    struck = [i for i, frame in enumerate(frames) if not frame.need.key and frame.need.interrupted]
    steps = [(count, False, False) for count in range(len(plain) + 1)]
    steps += [(count, True, False) for count in range(len(plain) + 1)]
    steps += [(count, True, True) for count in range(len(plain), len(plain) + len(struck) + 1)]
    plan = None
    for count, slim, few in steps if fold else steps[:1]:
        if count == 1 and plan is not None:
            continue  # a row with one name is no smaller than a card
        plan = _Plan(
            frames,
            measures,
            [_least(frame, few) for frame in frames],
            [few] * len(frames),
            min(ghosts, 1) if slim else ghosts,
            {
                index: measures.header_slim if slim else measures.header
                for index, frame in enumerate(frames)
                if frame.need.header
            },
        )
        for index in (plain + struck)[:count]:
            plan.amounts[index] = Amount.FOLDED
        if plan.height() <= height:
            break
    assert plan is not None
    _improve(plan, height)
    return plan


def _least(frame: _Frame, few: bool) -> Amount:
    if frame.need.key:
        return Amount.ALL
    return Amount.CODE if frame.need.interrupted and not few else Amount.NAME


def _improve(plan: _Plan, height: int) -> None:
    # A row of a single name may as well be a card; then detail for what room there is.
    for first, last in list(plan.runs()):
        if plan.amounts[first] is Amount.FOLDED and first == last:
            plan.amounts[first] = Amount.NAME
    room = height - plan.height()
    frames = list(enumerate(plan.frames))[::-1]
    for index, frame in frames:
        more = frame.height(plan.amounts[index], False) - frame.height(plan.amounts[index], plan.few[index])
        if more <= room:
            plan.few[index] = False
            room -= more
    room = _raise(plan, [i for i, frame in frames if frame.need.interrupted], Amount.CODE, room)
    for index in sorted(plan.headers, reverse=True):
        more = plan.measures.header - plan.headers[index]
        if more <= room:
            plan.headers[index] = plan.measures.header
            room -= more
    for wanted in (Amount.CODE, Amount.ALL):
        room = _raise(plan, [i for i, _ in frames], wanted, room)


def _raise(plan: _Plan, indexes: Sequence[int], wanted: Amount, room: int) -> int:
    # More detail for each card that has room for it; gives the room that is left.
    for index in indexes:
        now, frame = plan.amounts[index], plan.frames[index]
        more = frame.height(wanted, plan.few[index]) - frame.height(now, plan.few[index])
        if Amount.FOLDED < now < wanted and more <= room:
            plan.amounts[index] = wanted
            room -= more
    return room


def _placed(plan: _Plan, width: int) -> StackLayout:
    cards: list[CardBox] = []
    folds: list[FoldBox] = []
    headers: list[Box] = []
    y = GAP
    for first, last in plan.runs():
        frame = plan.frames[first]
        if frame.need.header:
            headers.append(Box(frame.x - GAP, y, frame.width + 2 * GAP, plan.headers[first]))
            y += plan.headers[first] + GAP
        placed = frame.placed(y, plan.amounts[first], plan.few[first])
        if last > first:
            folds.append(FoldBox(placed.box, first, last))
        cards += [placed] * (last - first + 1)
        y += placed.box.height + GAP
    levels = []
    for depth, header in enumerate(headers):
        bottom = y + GAP * (len(headers) - 1 - depth)
        levels.append(LevelBox(Box(header.x, header.y, header.width, bottom - header.y), header))
    y += GAP * len(headers)
    ghosts = []
    for _ in range(plan.ghosts):
        ghosts.append(Box(GAP, y, width - 2 * GAP, plan.measures.ghost))
        y += plan.measures.ghost + GAP
    return StackLayout(tuple(cards), tuple(levels), tuple(folds), tuple(ghosts), y)
