"""The page Compare: choosing the other run, both pictures, differences, numbers, where they part."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from PySide6.QtCore import QPoint
from pytestqt.qtbot import QtBot

from slubviz.model.snapshot import Snapshot
from slubviz.model.travel.picture_differences import Difference, differences
from slubviz.views.compare_page import MOST_DIFFERENCES, ComparePage
from slubviz.views.compare_view import CompareSide, CompareView, difference_rows, number_rows
from slubviz.views.numbers import MINUS, THIN
from slubviz.views.slab_map import MOST_MARKED
from slubviz.views.slab_summary import summarise
from slubviz.views.theme import DARK, LIGHT, code_font
from slubviz.views.travel_view import TravelView
from tests.views.fake_travel import BRANCHES, TRAVEL, show_docked
from tests.views.helpers import A, F, many_slabs, snapshot_of, table


@pytest.fixture
def page(qtbot: QtBot) -> Iterator[ComparePage]:
    page = ComparePage(LIGHT, code_font(), ("slub", "slub+"))
    host = show_docked(qtbot, page, width=1280)
    yield page
    host.hide()


def picture(counters: dict[str, int], *slabs: list[int]) -> Snapshot:
    return snapshot_of(table(list(slabs), cpu=[0] * len(slabs)), counters=counters)


def side(title: str, snapshot: Snapshot, position: int = 100) -> CompareSide:
    return CompareSide(title, position, 900, 2_000.0, snapshot, summarise(snapshot.slabs))


FIRST = picture({"ALLOC_FASTPATH": 7, "ZERO": 0, "CYCLES": 135_155_309}, [A, A, F, F], [A, F, F, F])
SECOND = picture({"ALLOC_FASTPATH": 4, "ZERO": 0, "ONLY_HERE": 2}, [A, A, F, F], [A, A, F, F])
VIEW = CompareView(
    side("slub, main", FIRST), side("slub+", SECOND, 120), "operation", differences(FIRST, SECOND)
)


def choices(page: ComparePage) -> list[str]:
    return [page.other.itemText(index) for index in range(page.other.count())]


def test_what_can_be_chosen_is_the_other_branches_kernels_and_a_file(page: ComparePage) -> None:
    page.show_compare(None, TRAVEL)
    assert choices(page) == [
        "choose …",
        "branch: main",
        "branch: branch 2",
        "kernel: slub",
        "kernel: slub+",
        "session file …",
    ]
    page.show_compare(None, replace(TRAVEL, branches=BRANCHES[:2]))
    assert "branch: branch 2" not in choices(page)


def test_without_a_run_nothing_can_be_chosen(page: ComparePage) -> None:
    page.show_compare(None, TravelView())
    assert not page.other.isEnabled()
    assert not page.parting.isEnabled()
    assert not page.left.isVisible()


def test_a_choice_asks_for_that_run(page: ComparePage) -> None:
    page.show_compare(None, TRAVEL)
    asked: list[object] = []
    page.branch_chosen.connect(asked.append)
    page.kernel_chosen.connect(asked.append)
    for text in ("branch: branch 2", "kernel: slub+", "choose …"):
        page.other.activated.emit(choices(page).index(text))
    assert asked == [2, "slub+"]


def test_both_runs_are_shown_with_their_places(page: ComparePage) -> None:
    page.show_compare(VIEW, TRAVEL)
    assert page.left.isVisible()
    assert page.left.info() == f"micro-op 100 of 900  ·  2{THIN}000{THIN}cyc"
    assert page.right.info() == f"micro-op 120 of 900  ·  2{THIN}000{THIN}cyc"
    assert page.by.currentData() == "operation"
    assert page.left.map.map_layout is not None
    assert page.right.map.map_layout is not None


def test_differences_are_listed_and_outlined_in_both_maps(page: ComparePage) -> None:
    page.show_compare(VIEW, TRAVEL)
    assert ("slab 101 inuse", "1 of 4", "2 of 4") in page.differences.rows
    assert ("slab 101 object 1", "free", "allocated") in page.differences.rows
    assert not any(
        row[0].startswith("slab 101 object ") for row in page.differences.rows if row[0][-1] != "1"
    )
    assert not any(row[0].startswith("slab 100") for row in page.differences.rows)
    for one in (page.left, page.right):
        places = one.map.marked_places()
        assert len(places) == 1  # of two slabs
        centre = places[0].center().toPoint()
        assert "page frame 101" in one.map.tooltip_at(centre)
        edge = QPoint(round(places[0].left()), centre.y())
        ratio = one.map.devicePixelRatioF()
        shot = one.map.grab().toImage()
        colour = shot.pixelColor(round(edge.x() * ratio), round(edge.y() * ratio)).name()
        assert colour == LIGHT.difference
    page.show_compare(replace(VIEW, differences=()), TRAVEL)
    assert page.differences.rows == ()
    assert page.left.map.marked_places() == []


def test_a_slab_that_only_one_run_has_is_not_told_object_by_object() -> None:
    third = picture({}, [A, A, F, F])
    view = replace(VIEW, b=side("other", third), differences=differences(FIRST, third))
    rows = difference_rows(view, 100)
    assert ("slab 101 inuse", "1 of 4", "-") in rows
    assert not any("object" in row[0] for row in rows)


def test_differences_have_their_numbers_grouped_as_the_window_does() -> None:
    clocks = (Difference("cpu", 3, "clock", "36,908.5", "1,234,567.0"),)
    rows = difference_rows(replace(VIEW, differences=clocks), 100)
    assert rows == [("CPU 3 clock", "36\u202f908.5", "1\u202f234\u202f567.0")]


def test_what_is_compared_stands_where_it_was_chosen(page: ComparePage) -> None:
    page.show_compare(None, TRAVEL)
    page.other.setCurrentIndex(4)
    page.show_compare(VIEW, TRAVEL)
    assert page.other.currentText() == "slub+"
    page.show_compare(VIEW, replace(TRAVEL, branches=BRANCHES[:2]))  # the list is made anew
    assert page.other.currentText() == "slub+"
    page.show_compare(None, TRAVEL)
    assert page.other.currentText() == "choose …"


def test_very_many_differences_are_counted(page: ComparePage) -> None:
    many = tuple(Difference("cpu", n, "clock", "1", "2") for n in range(MOST_DIFFERENCES + 7))
    page.show_compare(replace(VIEW, differences=many), TRAVEL)
    assert len(page.differences.rows) == MOST_DIFFERENCES + 1
    assert page.differences.rows[-1] == ("and 7 more", "", "")


def test_numbers_stand_beside_each_other_with_their_difference() -> None:
    rows = {row[0]: row[1:] for row in number_rows(VIEW)}
    assert rows["micro-ops"] == ("100", "120", "+20")
    assert rows["cycles"] == (f"2{THIN}000", f"2{THIN}000", "=")
    assert rows["ALLOC_FASTPATH"] == ("7", "4", f"{MINUS}3")
    assert rows["ONLY_HERE"] == ("0", "2", "+2")
    assert rows["CYCLES"] == (f"135{THIN}M", "0", f"{MINUS}135{THIN}M")
    assert "ZERO" not in rows


def test_how_they_are_kept_in_step_can_be_chosen(page: ComparePage, qtbot: QtBot) -> None:
    page.show_compare(VIEW, TRAVEL)
    with qtbot.waitSignal(page.by_chosen) as chosen:
        page.by.activated.emit(page.by.findData("cycle"))
    assert chosen.args == ["cycle"]


def test_the_button_searches_and_while_it_searches_stops(page: ComparePage) -> None:
    asked: list[str] = []
    page.parting_wanted.connect(lambda: asked.append("search"))
    page.search_stopped.connect(lambda: asked.append("stop"))
    page.show_compare(VIEW, TRAVEL)
    page.parting.click()
    page.show_compare(replace(VIEW, searching=0.426), TRAVEL)
    assert page.result.text() == "Looking for where they part … 43 %"
    page.parting.click()
    page.show_compare(VIEW, TRAVEL)
    assert page.parting.text() == "First divergence"
    assert asked == ["search", "stop"]
    assert not page.result.isVisible()


def test_where_they_part_is_told_and_can_be_gone_to(page: ComparePage, qtbot: QtBot) -> None:
    page.show_compare(replace(VIEW, parting="they part here", parting_position=77, note="ended"), TRAVEL)
    assert page.result.text() == "they part here  ended"
    with qtbot.waitSignal(page.seek) as sought:
        page.go.click()
    assert sought.args == [77]
    page.show_compare(replace(VIEW, parting="They never part."), TRAVEL)
    assert page.result.isVisible()
    assert not page.go.isVisible()


def test_closing_empties_the_page(page: ComparePage, qtbot: QtBot) -> None:
    page.show_compare(VIEW, TRAVEL)
    page.other.setCurrentIndex(3)
    with qtbot.waitSignal(page.closed):
        page.close_button.click()
    page.show_compare(None, TRAVEL)
    assert not page.left.isVisible()
    assert page.other.currentIndex() == 0


def test_the_theme_reaches_both_sides(page: ComparePage) -> None:
    page.show_compare(VIEW, TRAVEL)
    page.set_theme(DARK)
    for one in (page.left, page.right):
        place = one.map.marked_places()[0]
        ratio = one.map.devicePixelRatioF()
        at = (
            one.map.grab()
            .toImage()
            .pixelColor(round(place.left() * ratio), round(place.center().y() * ratio))
        )
        assert at.name() == DARK.difference


def test_pictures_that_are_the_same_are_not_drawn_again(
    page: ComparePage, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[CompareView] = []
    monkeypatch.setattr(page, "_show_pictures", drawn.append)
    page.show_compare(VIEW, TRAVEL)
    searching = replace(VIEW, searching=0.5)
    page.show_compare(searching, TRAVEL)
    assert drawn == [VIEW]
    moved = replace(VIEW, a=replace(VIEW.a, position=101))
    page.show_compare(moved, TRAVEL)
    assert [view.a.position for view in drawn] == [100, 101]


def test_a_map_outlines_no_more_than_can_be_seen(page: ComparePage) -> None:
    slabs = many_slabs(3_000)
    page.left.map.resize(1_200, 900)
    page.left.map.show_slabs(snapshot_of(slabs), summarise(slabs))
    page.left.map.set_marked(frozenset(range(3_000)))
    assert len(page.left.map.marked_places()) == MOST_MARKED
