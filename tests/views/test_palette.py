"""The command palette: what fits comes first, everything is reachable, keys alone suffice."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QWidget
from pytestqt.qtbot import QtBot

from slubviz.views.palette import Entry, Palette, matching, score


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
