"""The command palette: what fits comes first, everything is reachable, keys alone suffice."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QWidget
from pytestqt.qtbot import QtBot

from slubviz.views import commands as C
from slubviz.views.palette import Entry, Palette, matching, score
from slubviz.views.palette_entries import place_offers
from slubviz.views.travel_view import TravelView


def entries(*texts: str, disabled: tuple[str, ...] = ()) -> tuple[list[Entry], list[str]]:
    """Entries that note when they are chosen."""
    chosen: list[str] = []
    made = [Entry(text, "", lambda text=text: chosen.append(text), text not in disabled) for text in texts]
    return made, chosen


def test_letters_must_occur_in_order() -> None:
    assert score("nr", "Go: Next retry") is not None
    assert score("rn", "Go: Next retry") is None
    assert score("", "anything") == 0
    assert score("NEXT", "go: next retry") is not None
    assert score("next retry", "Go: Next retry") is not None
    assert score("zz", "fuzzy") is not None  # both letters are there, once
    assert score("zzz", "fuzzy") is None


def test_whole_words_beat_scattered_letters_and_starts_beat_middles() -> None:
    found, _ = entries("Go: Next retry", "Run: Reset", "Travel: Interrupt here", "Go: Previous entry")
    assert matching("retry", found)[0].text == "Go: Next retry"
    assert matching("ret", found)[0].text == "Go: Next retry"
    assert [e.text for e in matching("gnr", found)] == ["Go: Next retry", "Go: Previous entry"]
    assert matching("xyz", found) == []
    assert [e.text for e in matching("", found)] == [e.text for e in found]


def test_the_shorter_of_equal_texts_comes_first() -> None:
    found, _ = entries("Function: kmalloc_large", "Function: kmalloc", "Function: amalloc_kmalloc_b")
    assert [e.text for e in matching("kmalloc", found)] == [
        "Function: kmalloc",
        "Function: kmalloc_large",
        "Function: amalloc_kmalloc_b",
    ]


def test_keys_choose(qtbot: QtBot) -> None:
    found, chosen = entries("alpha", "beta", "gamma")
    palette = Palette(found)
    qtbot.addWidget(palette)
    palette.show()
    assert palette.texts == ["alpha", "beta", "gamma"]
    qtbot.keyClick(palette.field, Qt.Key.Key_Down)
    qtbot.keyClick(palette.field, Qt.Key.Key_Down)
    qtbot.keyClick(palette.field, Qt.Key.Key_Up)
    qtbot.keyClick(palette.field, Qt.Key.Key_Return)
    assert chosen == ["beta"]
    assert not palette.isVisible()


def test_typing_narrows_and_return_takes_the_first(qtbot: QtBot) -> None:
    found, chosen = entries("alpha", "beta", "gamma")
    palette = Palette(found)
    qtbot.addWidget(palette)
    palette.show()
    qtbot.keyClicks(palette.field, "ga")
    assert palette.texts == ["gamma"]
    qtbot.keyClick(palette.field, Qt.Key.Key_Return)
    assert chosen == ["gamma"]


def test_what_makes_no_sense_now_cannot_be_chosen(qtbot: QtBot) -> None:
    found, chosen = entries("alpha", disabled=("alpha",))
    palette = Palette(found)
    qtbot.addWidget(palette)
    palette.show()
    qtbot.keyClick(palette.field, Qt.Key.Key_Return)
    assert chosen == []
    assert palette.isVisible()


def test_nothing_that_fits_chooses_nothing_and_escape_leaves(qtbot: QtBot) -> None:
    found, chosen = entries("alpha")
    palette = Palette(found)
    qtbot.addWidget(palette)
    palette.show()
    palette.ask("qqq")
    assert palette.texts == []
    qtbot.keyClick(palette.field, Qt.Key.Key_Return)
    qtbot.keyClick(palette.field, Qt.Key.Key_Escape)
    assert chosen == []
    assert not palette.isVisible()


def test_offers_depend_on_what_is_typed_and_come_first(qtbot: QtBot) -> None:
    found, chosen = entries("alpha 12")
    offers: list[Entry] = []

    def offer(query: str) -> list[Entry]:
        return [Entry(f"Go to {query}", "", lambda: chosen.append(query))] if query.isdigit() else offers

    palette = Palette(found, offer)
    qtbot.addWidget(palette)
    palette.show()
    palette.ask("12")
    assert palette.texts == ["Go to 12", "alpha 12"]
    qtbot.keyClick(palette.field, Qt.Key.Key_Return)
    assert chosen == ["12"]


def test_it_stays_inside_a_small_window(qtbot: QtBot) -> None:
    window = QWidget()
    qtbot.addWidget(window)
    window.resize(500, 400)
    window.show()
    found, _ = entries(*(f"a long command number {index}" for index in range(300)))
    palette = Palette(found, parent=window)
    palette.show()
    assert palette.width() <= 500
    assert palette.height() <= 400
    assert len(palette.texts) == 60


def test_a_name_finds_an_entry_with_another_text_hyphens_or_not() -> None:
    def nothing() -> None: ...

    found = [
        Entry("Run: Reset", "", nothing),
        Entry("Scenario: Eight CPUs and one spinlock", "", nothing, name="list-lock-contention"),
        Entry("Function: list_lock_of", "", nothing),
        Entry("Go: Lock in the list", "", nothing, name="far-away"),
    ]
    for query in ("list-lock", "list lock", "LIST-LOCK", "list-lock-contention", "one spinlock", "one-spin"):
        assert matching(query, found)[0] is found[1], query
    assert matching("far", found) == [found[3]]


def test_an_empty_result_says_so_and_cannot_be_chosen(qtbot: QtBot) -> None:
    found, chosen = entries("alpha")
    palette = Palette(found)
    qtbot.addWidget(palette)
    palette.show()
    palette.ask("qqq")
    assert [palette.list.item(row).text() for row in range(palette.list.count())] == ["Nothing found"]
    for key in (Qt.Key.Key_Down, Qt.Key.Key_PageUp, Qt.Key.Key_Return):
        qtbot.keyClick(palette.field, key)
    palette.list.itemClicked.emit(palette.list.item(0))
    assert chosen == []
    palette.ask("al")
    assert [palette.list.item(row).text() for row in range(palette.list.count())] == ["alpha"]


def offered(query: str, travel: TravelView) -> tuple[list[str], list[C.Command]]:
    """Texts of the places that are offered, and what choosing them sends."""
    sent: list[C.Command] = []
    offers = place_offers(query, travel, sent.append)
    for entry in offers:
        if entry.enabled:
            entry.choose()
    return [entry.text for entry in offers], sent


def test_places_can_be_typed_as_in_the_position_field() -> None:
    travel = TravelView(branch=0, position=500, end=2000)
    for prefix in ("", ">", "> "):
        assert offered(f"{prefix}+100", travel)[1] == [C.Seek(600)]
        assert offered(f"{prefix}-100", travel)[1] == [C.Seek(400)]
        assert offered(f"{prefix}\u2212100", travel)[1] == [C.Seek(400)]
        assert offered(f"{prefix}-900", travel)[1] == [C.Seek(0)]
        assert offered(f"{prefix}+9000", travel)[1] == [C.Seek(2000)]
        assert offered(f"{prefix}1234", travel)[1] == [C.Seek(1234), C.SeekCycle(1234.0)]
        assert offered(f"{prefix}cycle 77", travel)[1] == [C.SeekCycle(77.0)]
        for wrong in ("+", "-", "+x", "--1"):
            assert offered(f"{prefix}{wrong}", travel) == ([], [])
    assert offered("+100", TravelView()) == ([], [])


def test_a_mere_angle_says_what_can_follow() -> None:
    texts, sent = offered(">", TravelView(branch=0, end=2000))
    assert texts == ["Go to: micro-op N, +N, \u2212N, cycle N"]
    assert sent == []
    assert offered(" > ", TravelView())[0] == texts
